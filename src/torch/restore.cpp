#include "torch/restore.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <map>
#include <set>
#include <span>
#include <string>

#include "torch/dtype_map.h"
#include "torch/gradient_store_contents.h"
#include "torch/sparse_slice.h"

namespace gradstore {

namespace {

using Registered = std::shared_ptr<const RegisteredParam>;

std::string text_of(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (const auto extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 10;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i)
    text += (i ? ", " : "") + printable(names[i]);
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

// Holds a file's layout against the params that the target knows.
class Matcher {
 public:
  Matcher(const archive::FileReader& file, const GradientStore& store) : file_(file) {
    GradientStoreAccess::with_contents(store, [this](const GradientStoreView& view) {
      for (const auto& param : view.registered) known_[param->registration.name] = param;
    });
    const archive::GradientStoreSetup setup{store.world_size(), store.local_rank(),
                                            store.partition_grad()};
    if (setup != file.manifest().setup) {
      refuse("the gradient store was set up for world size " + std::to_string(setup.world_size) +
             ", rank " + std::to_string(setup.local_rank) +
             (setup.partition_grad ? ", partitioned" : ", not partitioned") +
             "; the snapshot for world size " + std::to_string(file.manifest().setup.world_size) +
             ", rank " + std::to_string(file.manifest().setup.local_rank) +
             (file.manifest().setup.partition_grad ? ", partitioned" : ", not partitioned"));
    }
  }

  RestoreReport match(bool partial) {
    RestoreReport report;
    std::set<std::string_view> seen;
    for (const auto& param : file_.layout().params) {
      const auto found = known_.find(param.name);
      if (found == known_.end()) {
        report.unexpected.push_back(param.name);
        targets_.push_back(nullptr);
        continue;
      }
      seen.insert(param.name);
      check_same(param, *found->second);
      targets_.push_back(found->second);
    }
    for (const auto& [name, param] : known_) {
      if (!seen.contains(name)) report.missing.push_back(name);
    }
    if (!partial && !(report.missing.empty() && report.unexpected.empty())) {
      std::string what = "the params differ";
      if (!report.missing.empty()) what += "; missing in the snapshot: " + list_of(report.missing);
      if (!report.unexpected.empty())
        what += "; unknown to the target: " + list_of(report.unexpected);
      refuse(what + ". RestoreOptions::partial restores what both have");
    }
    return report;
  }

  // Of Layout::params number `p`; null when the target does not know it.
  const Registered& target(std::size_t p) const { return targets_[p]; }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::incompatible,
                file_.path().string() + " does not fit: " + what + ". Nothing was changed");
  }

  void check_same(const ParamSpec& param, const RegisteredParam& target) const {
    const auto& registration = target.registration;
    const std::vector<std::uint64_t> shape(registration.shape.begin(), registration.shape.end());
    if (shape != param.shape) {
      refuse("param " + printable(param.name) + " has shape " + text_of(param.shape) +
             " in the snapshot and " + text_of(shape) + " in the target");
    }
    if (dtype_of(registration.dtype) != param.dtype) {
      refuse("param " + printable(param.name) + " is " + std::string(name_of(param.dtype)) +
             " in the snapshot and " + at::toString(registration.dtype) + " in the target");
    }
    // Absent params carry the group of their registration; so do all that a client kept to it.
    const auto group_id = file_.layout().groups[param.group].id;
    if (group_id != registration.group_id && !in_group(param.name, registration.group_id)) {
      refuse("param " + printable(param.name) + " is in group " + std::to_string(group_id) +
             " in the snapshot and in group " + std::to_string(registration.group_id) +
             " in the target");
    }
  }

  // A client may keep one param in several groups; its own must be among them.
  bool in_group(const std::string& name, std::int64_t group_id) const {
    for (const auto& param : file_.layout().params) {
      if (param.name == name && file_.layout().groups[param.group].id == group_id) return true;
    }
    return false;
  }

  const archive::FileReader& file_;
  std::map<std::string, Registered, std::less<>> known_;
  std::vector<Registered> targets_;
};

// A tensor of its own over the same memory; of a sparse tensor, the same tensor.
at::Tensor share(const at::Tensor& tensor) { return tensor.is_sparse() ? tensor : tensor.alias(); }

std::vector<at::Tensor> read_all(const archive::FileReader& file, const Matcher& matcher,
                                 bool verify) {
  const auto& slices = file.layout().slices;
  std::vector<at::Tensor> tensors(slices.size());
  at::parallel_for(
      0, static_cast<std::int64_t>(slices.size()), 1, [&](std::int64_t first, std::int64_t last) {
        for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
          const auto& target = matcher.target(slices[i].param);
          if (target && !slices[i].alias_of)
            tensors[i] = read_slice(file, i, verify).to(target->registration.device);
        }
      });
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const auto& target = matcher.target(slices[i].param);
    if (!target || !slices[i].alias_of) continue;
    // The one that it shares may be left out, or be wanted on another device.
    auto& first = tensors[*slices[i].alias_of];
    const auto& device = target->registration.device;
    if (!first.defined()) first = read_slice(file, i, verify).to(device);
    tensors[i] = share(first).to(device);
  }
  return tensors;
}

}  // namespace

at::Tensor read_slice(const archive::FileReader& file, std::size_t number, bool verify) {
  const auto& slice = file.layout().slices[number];
  const auto read = [&](std::vector<std::int64_t> sizes, at::ScalarType type) {
    auto tensor = at::empty(sizes, at::TensorOptions().dtype(type));
    file.read_slice(number, {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()},
                    verify);
    return tensor;
  };
  if (!slice.sparse) {
    return read({slice.shape.begin(), slice.shape.end()}, scalar_type_of(slice.dtype));
  }
  const auto bytes = read({static_cast<std::int64_t>(num_bytes(slice))}, at::kByte);
  const auto refuse = [&](const char* what) {
    throw Error(ErrorCode::corrupt, file.path().string() + ": " +
                                        archive::describe_slice(file.layout(), number) +
                                        " is no sparse tensor: " + what);
  };
  try {
    return unpack_sparse(bytes, slice);
  } catch (const c10::Error& error) {
    refuse(error.what_without_backtrace());
  } catch (const Error& error) {
    refuse(error.what());
  }
  return {};
}

RestoreReport restore_gradients(const archive::FileReader& file, GradientStore& store,
                                const RestoreOptions& options, bool verify) {
  Matcher matcher(file, store);
  auto report = matcher.match(options.partial);
  const auto tensors = read_all(file, matcher, verify);

  const auto& layout = file.layout();
  std::vector<StoredGroup> groups(layout.groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) groups[g].group_id = layout.groups[g].id;
  std::size_t next_slice = 0;
  for (std::size_t p = 0; p < layout.params.size(); ++p) {
    StoredParam param;
    for (; next_slice < layout.slices.size() && layout.slices[next_slice].param == p;
         ++next_slice) {
      const auto& slice = layout.slices[next_slice];
      param.slices.push_back(
          {tensors[next_slice],
           {static_cast<std::int64_t>(slice.begin), static_cast<std::int64_t>(slice.end),
            static_cast<std::int64_t>(slice.padding)}});
    }
    if (!matcher.target(p)) continue;
    param.param_id = matcher.target(p)->param_id;
    if (!param.slices.empty()) groups[layout.params[p].group].params.push_back(std::move(param));
  }
  // A group that only lists absent params was never in the store.
  std::vector<StoredGroup> in_store;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (layout.groups[g].in_store) in_store.push_back(std::move(groups[g]));
  }
  GradientStoreAccess::replace_contents(store, std::move(in_store));
  return report;
}

CompanionState read_companion_state(const archive::FileReader& file, bool verify) {
  CompanionState state;
  state.json = file.manifest().metadata.user_json;
  const auto& layout = file.layout();
  for (std::size_t i = 0; i < layout.slices.size(); ++i) {
    const auto& slice = layout.slices[i];
    state.tensors.emplace_back(layout.params[slice.param].name,
                               slice.alias_of ? share(state.tensors[*slice.alias_of].second)
                                              : read_slice(file, i, verify));
  }
  return state;
}

}  // namespace gradstore
