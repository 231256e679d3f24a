// Which param a tensor was appended under.
//
// Invariant: an entry's key is the address of the tensor it was made for, as long as it is there.
//
// An address alone would answer for a new tensor that was given a dead one's place. So each entry
// holds a weak reference, which frees the dead tensor's data but keeps its TensorImpl (some 200
// bytes) where it is: no new one can get that address before the entry is gone. Entries of dead
// tensors are forgotten in bulk, whenever there are twice as many entries as were alive last time.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>

namespace gradstore {

class TensorIds {
 public:
  void remember(const at::Tensor& tensor, std::int64_t param_id) {
    if (entries_.size() >= forget_at_) {
      std::erase_if(entries_, [](const auto& entry) { return entry.second.tensor.expired(); });
      forget_at_ = std::max(kForgetFrom, 2 * entries_.size());
    }
    entries_.insert_or_assign(tensor.unsafeGetTensorImpl(),
                              Entry{WeakTensor(tensor.getIntrusivePtr()), param_id});
  }

  std::optional<std::int64_t> find(const at::Tensor& tensor) const {
    const auto entry = entries_.find(tensor.unsafeGetTensorImpl());
    if (entry == entries_.end()) return std::nullopt;
    return entry->second.param_id;
  }

  std::size_t size() const noexcept { return entries_.size(); }

 private:
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Entry {
    WeakTensor tensor;
    std::int64_t param_id;
  };
  static constexpr std::size_t kForgetFrom = 1024;

  std::unordered_map<const c10::TensorImpl*, Entry> entries_;
  std::size_t forget_at_ = kForgetFrom;
};

}  // namespace gradstore
