// How the store is kept.
//
// Groups and params are vectors, because their order is part of the contract, with hash maps from
// id to position beside them. One mutex covers all of it. Tensors that are dropped die after it is
// unlocked: the death of a tensor that Python knows takes the GIL.
#include "gradstore/gradient_store.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#include "core/layout.h"
#include "gradstore/error.h"
#include "torch/gradient_store_contents.h"
#include "torch/gradient_store_tensor_ids.h"

namespace gradstore {
namespace {

using RegisteredPtr = std::shared_ptr<const RegisteredParam>;

std::int64_t checked_numel(const ParamRegistration& registration) {
  const std::vector<std::int64_t>& shape = registration.shape;
  for (const std::int64_t size : shape) {
    if (size < 0) {
      throw Error(ErrorCode::invalid_argument,
                  "param " + printable(registration.name) +
                      " has a negative size in its shape: " + std::to_string(size));
    }
  }
  // One empty dimension makes up for any product of the others.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;

  std::int64_t numel = 1;
  for (const std::int64_t size : shape) {
    if (numel > std::numeric_limits<std::int64_t>::max() / size) {
      throw Error(ErrorCode::invalid_argument,
                  "param " + printable(registration.name) + " has more than 2^63 - 1 elements");
    }
    numel *= size;
  }
  return numel;
}

// "param "blocks.0.up.weight" (id 42)"; by its id alone where there is no name.
std::string label(std::int64_t param_id, const RegisteredParam* registered) {
  if (registered == nullptr) return "param " + std::to_string(param_id);
  return "param " + printable(registered->registration.name) + " (id " + std::to_string(param_id) +
         ")";
}

std::string in_group(std::int64_t group_id) { return " of group " + std::to_string(group_id); }

std::string counted(std::size_t num_slices) {
  return std::to_string(num_slices) + (num_slices == 1 ? " slice" : " slices");
}

SliceRange default_range(std::int64_t numel, std::int64_t rank, const RegisteredParam* registered) {
  if (registered == nullptr) return {0, numel, 0};
  const std::int64_t whole = registered->numel;
  if (numel == whole) return {0, numel, 0};
  // Compare before multiplying: far beyond the end the product could overflow.
  const std::int64_t begin =
      numel != 0 && rank > whole / numel ? whole : std::min(rank * numel, whole);
  const std::int64_t end = begin + std::min(numel, whole - begin);
  return {begin, end, numel - (end - begin)};
}

void check_range(const SliceRange& range, std::int64_t numel, std::int64_t param_id,
                 const RegisteredParam* registered) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::invalid_argument,
                "the range of a slice of " + label(param_id, registered) + " " + why + ": [" +
                    std::to_string(range.begin) + ", " + std::to_string(range.end) +
                    ") with padding " + std::to_string(range.padding));
  };
  if (range.begin < 0 || range.end < range.begin || range.padding < 0) refuse("is not a range");
  const std::int64_t length = range.end - range.begin;
  if (length > numel || range.padding != numel - length) {
    refuse("does not cover its " + std::to_string(numel) + " elements");
  }
  if (registered != nullptr && range.end > registered->numel) {
    refuse("ends after the param's " + std::to_string(registered->numel) + " elements");
  }
}

// Groups, params and slices in order, found by id.
class OrderedSlices {
 public:
  const std::vector<StoredGroup>& groups() const noexcept { return groups_; }

  const StoredGroup* find_group(std::int64_t group_id) const {
    const auto position = group_positions_.find(group_id);
    return position == group_positions_.end() ? nullptr : &groups_[position->second];
  }

  const StoredParam* find_param(std::int64_t group_id, std::int64_t param_id) const {
    const auto position = group_positions_.find(group_id);
    return position == group_positions_.end() ? nullptr : param_in(position->second, param_id);
  }

  const StoredParam* find_param_in_first_group(std::int64_t param_id) const {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (const StoredParam* param = param_in(i, param_id)) return param;
    }
    return nullptr;
  }

  // Finds the group's position; a new group goes to the end.
  std::size_t open_group(std::int64_t group_id) {
    if (const auto known = group_positions_.find(group_id); known != group_positions_.end()) {
      return known->second;
    }
    param_positions_.resize(groups_.size() + 1);
    groups_.push_back({group_id, {}});
    try {
      group_positions_.emplace(group_id, groups_.size() - 1);
    } catch (...) {
      groups_.pop_back();
      throw;
    }
    return groups_.size() - 1;
  }

  void append(std::int64_t group_id, std::int64_t param_id, const RegisteredPtr& registered,
              StoredSlice slice) {
    const std::size_t group = open_group(group_id);
    if (const auto known = param_positions_[group].find(param_id);
        known != param_positions_[group].end()) {
      groups_[group].params[known->second].slices.push_back(std::move(slice));
      return;
    }
    std::vector<StoredParam>& params = groups_[group].params;
    StoredParam param{param_id, {}, registered};
    param.slices.push_back(std::move(slice));
    params.push_back(std::move(param));
    try {
      param_positions_[group].emplace(param_id, params.size() - 1);
    } catch (...) {
      params.pop_back();
      throw;
    }
  }

  void attach(const RegisteredPtr& registered) {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const auto position = param_positions_[i].find(registered->param_id);
      if (position != param_positions_[i].end()) {
        groups_[i].params[position->second].registered = registered;
      }
    }
  }

  // Hands out what the group held.
  std::vector<StoredParam> clear_group(std::int64_t group_id) {
    const std::size_t group = open_group(group_id);
    param_positions_[group].clear();
    return std::exchange(groups_[group].params, {});
  }

 private:
  const StoredParam* param_in(std::size_t group, std::int64_t param_id) const {
    const auto position = param_positions_[group].find(param_id);
    return position == param_positions_[group].end() ? nullptr
                                                     : &groups_[group].params[position->second];
  }

  std::vector<StoredGroup> groups_;
  std::unordered_map<std::int64_t, std::size_t> group_positions_;
  std::vector<std::unordered_map<std::int64_t, std::size_t>> param_positions_;  // By group.
};

// All that reset_all_gradients() drops.
struct Gradients {
  OrderedSlices slices;
  TensorIds tensor_ids;
};

}  // namespace

struct GradientStore::Impl {
  explicit Impl(const GradientStoreOptions& given)
      : options(given), working_index(given.partition_grad ? 0 : given.local_rank) {}

  const RegisteredPtr& find_registered(std::int64_t param_id) const {
    static const RegisteredPtr none;
    const auto position = registered_by_id.find(param_id);
    return position == registered_by_id.end() ? none : registered[position->second];
  }

  void append(Gradients& to, std::int64_t group_id, std::int64_t param_id, at::Tensor&& grad,
              const std::optional<SliceRange>& given) const {
    const RegisteredPtr& param = find_registered(param_id);
    if (!grad.defined()) {
      throw Error(ErrorCode::invalid_argument, "an undefined tensor was given as a slice of " +
                                                   label(param_id, param.get()) +
                                                   in_group(group_id));
    }
    SliceRange range;
    if (given) {
      range = *given;
      check_range(range, grad.numel(), param_id, param.get());
    } else {
      const StoredParam* before = to.slices.find_param(group_id, param_id);
      const auto position =
          static_cast<std::int64_t>(before == nullptr ? 0 : before->slices.size());
      range = default_range(grad.numel(), options.partition_grad ? options.local_rank : position,
                            param.get());
    }
    to.tensor_ids.remember(grad, param_id);
    to.slices.append(group_id, param_id, param, {std::move(grad), range});
  }

  const at::Tensor& working_grad(const StoredParam& param) const {
    if (working_index >= static_cast<std::int64_t>(param.slices.size())) {
      throw Error(ErrorCode::not_found, label(param.param_id, param.registered.get()) + " has " +
                                            counted(param.slices.size()) +
                                            ", none yet at the working index " +
                                            std::to_string(working_index));
    }
    return param.slices[static_cast<std::size_t>(working_index)].tensor;
  }

  const GradientStoreOptions options;
  const std::int64_t working_index;

  mutable std::mutex mutex;  // Guards everything below.
  Gradients gradients;
  std::vector<RegisteredPtr> registered;
  std::unordered_map<std::int64_t, std::size_t> registered_by_id;
  std::unordered_map<std::string, std::size_t> registered_by_name;
};

GradientStore::GradientStore(const GradientStoreOptions& options) {
  if (options.local_rank < 0 || options.local_rank >= options.world_size) {
    throw Error(ErrorCode::invalid_argument,
                "a gradient store needs 0 <= local_rank < world_size; local_rank is " +
                    std::to_string(options.local_rank) + ", world_size is " +
                    std::to_string(options.world_size));
  }
  impl_ = std::make_unique<Impl>(options);
}

GradientStore::~GradientStore() = default;

std::int64_t GradientStore::world_size() const noexcept { return impl_->options.world_size; }
std::int64_t GradientStore::local_rank() const noexcept { return impl_->options.local_rank; }
bool GradientStore::partition_grad() const noexcept { return impl_->options.partition_grad; }
std::int64_t GradientStore::working_index() const noexcept { return impl_->working_index; }

void GradientStore::register_param(std::int64_t param_id, ParamRegistration registration) {
  const std::int64_t numel = checked_numel(registration);

  const std::lock_guard lock(impl_->mutex);
  auto& all = impl_->registered;
  if (const RegisteredPtr& known = impl_->find_registered(param_id)) {
    throw Error(ErrorCode::already_exists, "cannot register param " + printable(registration.name) +
                                               " under id " + std::to_string(param_id) +
                                               ", which is that of " +
                                               label(param_id, known.get()));
  }
  const auto same_name = impl_->registered_by_name.find(registration.name);
  if (same_name != impl_->registered_by_name.end()) {
    const RegisteredParam& known = *all[same_name->second];
    throw Error(ErrorCode::already_exists, "cannot register id " + std::to_string(param_id) +
                                               " under the name of " +
                                               label(known.param_id, &known));
  }

  const auto param = std::make_shared<const RegisteredParam>(
      RegisteredParam{param_id, all.size(), numel, std::move(registration)});
  all.push_back(param);
  try {
    impl_->registered_by_name.emplace(param->registration.name, param->position);
    impl_->registered_by_id.emplace(param_id, param->position);
  } catch (...) {
    impl_->registered_by_name.erase(param->registration.name);
    all.pop_back();
    throw;
  }
  impl_->gradients.slices.attach(param);
}

void GradientStore::register_param(std::int64_t param_id, std::string name, std::int64_t group_id,
                                   const at::Tensor& param) {
  if (!param.defined()) {
    throw Error(ErrorCode::invalid_argument,
                "param " + printable(name) + " was registered with an undefined tensor");
  }
  register_param(param_id, {std::move(name), group_id, param.sizes().vec(), param.scalar_type(),
                            param.device()});
}

void GradientStore::append_gradients_by_param_id(at::Tensor grad, std::int64_t group_id,
                                                 std::int64_t param_id) {
  const std::lock_guard lock(impl_->mutex);
  impl_->append(impl_->gradients, group_id, param_id, std::move(grad), std::nullopt);
}

void GradientStore::append_gradients_by_param_id(at::Tensor grad, std::int64_t group_id,
                                                 std::int64_t param_id, SliceRange range) {
  const std::lock_guard lock(impl_->mutex);
  impl_->append(impl_->gradients, group_id, param_id, std::move(grad), range);
}

void GradientStore::add_gradients_by_param_id(const at::Tensor& grad, std::int64_t slice_index,
                                              std::int64_t group_id, std::int64_t param_id) {
  const std::lock_guard lock(impl_->mutex);
  const auto where = [&] {
    return label(param_id, impl_->find_registered(param_id).get()) + in_group(group_id);
  };
  if (!grad.defined()) {
    throw Error(ErrorCode::invalid_argument, "cannot add an undefined tensor to " + where());
  }
  if (impl_->gradients.slices.find_group(group_id) == nullptr) {
    throw Error(ErrorCode::not_found, "cannot add to " + where() + ": there is no such group");
  }
  const StoredParam* param = impl_->gradients.slices.find_param(group_id, param_id);
  if (param == nullptr) {
    throw Error(ErrorCode::not_found, "cannot add to " + where() + ": it has no slices");
  }
  const auto num_slices = static_cast<std::int64_t>(param->slices.size());
  if (slice_index < -num_slices || slice_index >= num_slices) {
    throw Error(ErrorCode::not_found, "cannot add to " + where() + ": there is no slice " +
                                          std::to_string(slice_index) + ", it has " +
                                          counted(param->slices.size()));
  }
  const std::int64_t position = slice_index < 0 ? slice_index + num_slices : slice_index;
  const at::Tensor& slice = param->slices[static_cast<std::size_t>(position)].tensor;

  const at::NoGradGuard without_autograd;
  try {
    slice.add_(grad);
  } catch (const c10::OutOfMemoryError& error) {
    throw Error(ErrorCode::busy, "no memory to add to slice " + std::to_string(position) + " of " +
                                     where() + ": " + error.what_without_backtrace());
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::invalid_argument, "cannot add to slice " + std::to_string(position) +
                                                 " of " + where() + ": " +
                                                 error.what_without_backtrace());
  }
}

std::vector<at::Tensor> GradientStore::get_partitioned_gradients_by_param_id(
    std::int64_t group_id, std::int64_t param_id) const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<at::Tensor> grads;
  if (const StoredParam* param = impl_->gradients.slices.find_param(group_id, param_id)) {
    grads.reserve(param->slices.size());
    for (const StoredSlice& slice : param->slices) grads.push_back(slice.tensor);
  }
  return grads;
}

std::vector<at::Tensor> GradientStore::get_working_grads_by_group_id(std::int64_t group_id) const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<at::Tensor> grads;
  if (const StoredGroup* group = impl_->gradients.slices.find_group(group_id)) {
    grads.reserve(group->params.size());
    for (const StoredParam& param : group->params) grads.push_back(impl_->working_grad(param));
  }
  return grads;
}

std::optional<at::Tensor> GradientStore::get_working_grad_by_param_id(std::int64_t param_id) const {
  const std::lock_guard lock(impl_->mutex);
  const StoredParam* param = impl_->gradients.slices.find_param_in_first_group(param_id);
  if (param == nullptr) return std::nullopt;
  return impl_->working_grad(*param);
}

std::optional<std::int64_t> GradientStore::get_param_id_for_grad(const at::Tensor& grad) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->gradients.tensor_ids.find(grad);
}

void GradientStore::reset_grads_by_group_id(std::int64_t group_id) {
  std::vector<StoredParam> dropped;
  const std::lock_guard lock(impl_->mutex);
  dropped = impl_->gradients.slices.clear_group(group_id);
}

void GradientStore::reset_all_gradients() {
  Gradients dropped;
  const std::lock_guard lock(impl_->mutex);
  std::swap(dropped, impl_->gradients);
}

void GradientStoreAccess::with_contents(const GradientStore& store,
                                        const std::function<void(const GradientStoreView&)>& look) {
  const GradientStore::Impl& impl = *store.impl_;
  const std::lock_guard lock(impl.mutex);

  GradientStoreView view{impl.gradients.slices.groups(), impl.registered, {}};
  std::vector<bool> has_slices(impl.registered.size(), false);
  for (const StoredGroup& group : view.groups) {
    for (const StoredParam& param : group.params) {
      if (param.registered) has_slices[param.registered->position] = true;
    }
  }
  for (const RegisteredPtr& param : impl.registered) {
    if (!has_slices[param->position]) view.without_slices.push_back(param);
  }

  look(view);
}

void GradientStoreAccess::replace_contents(GradientStore& store, std::vector<StoredGroup> groups) {
  GradientStore::Impl& impl = *store.impl_;
  Gradients next;
  const std::lock_guard lock(impl.mutex);

  for (StoredGroup& group : groups) {
    if (next.slices.find_group(group.group_id) != nullptr) {
      throw Error(ErrorCode::invalid_argument,
                  "group " + std::to_string(group.group_id) + " was given twice");
    }
    next.slices.open_group(group.group_id);
    for (StoredParam& param : group.params) {
      if (next.slices.find_param(group.group_id, param.param_id) != nullptr) {
        throw Error(ErrorCode::invalid_argument,
                    label(param.param_id, impl.find_registered(param.param_id).get()) +
                        in_group(group.group_id) + " was given twice");
      }
      for (StoredSlice& slice : param.slices) {
        impl.append(next, group.group_id, param.param_id, std::move(slice.tensor), slice.range);
      }
    }
  }

  std::swap(next, impl.gradients);
}

std::size_t GradientStoreAccess::num_known_tensors(const GradientStore& store) {
  const std::lock_guard lock(store.impl_->mutex);
  return store.impl_->gradients.tensor_ids.size();
}

}  // namespace gradstore
