// The gradients of a training job in memory: group -> param -> slices.
#pragma once

#include <ATen/core/ATen_fwd.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gradstore {

struct GradientStoreOptions {
  std::int64_t world_size = 1;  ///< Ranks that share the params of this store. Default: 1.
  std::int64_t local_rank = 0;  ///< This rank among them, 0..world_size-1. Default: 0.
  bool partition_grad = false;  ///< Keep only this rank's slice (ZeRO-2), not all. Default: all.
};

/// Which elements of the flattened param a slice holds: [begin, end), then `padding` elements that
/// belong to no param. Unit: elements.
struct SliceRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t padding = 0;
  bool operator==(const SliceRange&) const = default;
};

/// What names a param on disk, and what it looks like there. Ids are good for this process only.
struct ParamRegistration {
  std::string name;                 ///< Any bytes; unique in the store.
  std::int64_t group_id = 0;        ///< The optimizer's group that it belongs to.
  std::vector<std::int64_t> shape;  ///< Of the whole param; empty for a scalar. Unit: elements.
  c10::ScalarType dtype = c10::ScalarType::Float;
  c10::Device device{c10::DeviceType::CPU};
};

/// Keeps the gradient slices of one process group, by optimizer group and param.
///
/// Tensors are kept, never copied: every getter returns the very tensor that was appended (the same
/// TensorImpl), and whoever holds one may write into it. Groups keep the order in which they were
/// first appended to, params inside a group that of their first slice, slices that of their append.
/// A slice may have any shape and dtype; a client of ZeRO appends flat ones, in the param's dtype.
/// Values are d(loss)/d(param) in whatever state the training loop left them; nothing is converted.
///
/// Safe to call from several threads: calls take turns on one lock, which does not cover what
/// clients write into tensors they got. While a snapshot captures the store, all calls wait. A
/// caller from Python releases the GIL first.
///
/// Source: the bookkeeping of ColossalAI's low-level ZeRO optimizer, from v0.4.3 to v0.5.1
///         (colossalai/zero/low_level/bookkeeping/gradient_store.py). Where it differs:
///         get_partitioned_gradients_by_param_id returns a copy of the list; the id of a tensor
///         that has died never answers for a new one at its address; append refuses "no tensor".
class GradientStore {
 public:
  /// Errors: Error{invalid_argument} unless 0 <= local_rank < world_size.
  explicit GradientStore(const GradientStoreOptions& options = {});
  ~GradientStore();
  GradientStore(const GradientStore&) = delete;
  GradientStore& operator=(const GradientStore&) = delete;

  std::int64_t world_size() const noexcept;
  std::int64_t local_rank() const noexcept;
  bool partition_grad() const noexcept;

  /// Position of this rank's slice in a param's list: 0 when partitioned, else local_rank().
  std::int64_t working_index() const noexcept;

  /// Tells the name, shape and dtype behind `param_id`, as persistence needs them. Optional for
  /// everything in memory; what is appended under an id without registration has no name on disk.
  /// Register before the first append, which takes its default range from the shape.
  ///
  /// Errors: Error{already_exists} `param_id` or the name is registered, naming both params;
  ///         {invalid_argument} a negative size, or more than 2^63 - 1 elements.
  void register_param(std::int64_t param_id, ParamRegistration registration);

  /// The same with shape, dtype and device of `param`, which is not kept.
  /// Errors: as above; Error{invalid_argument} an undefined tensor.
  void register_param(std::int64_t param_id, std::string name, std::int64_t group_id,
                      const at::Tensor& param);

  /// Adds `grad` to the end of the param's list of slices, with a range by default:
  ///  - param not registered, or `grad` as large as the whole param: [0, numel), no padding;
  ///  - else the equal share of rank r, where r is local_rank() when partitioned and else the
  ///    position in the list: [r * grad.numel(), (r + 1) * grad.numel()), cut at the param's end;
  ///    what is cut off is padding.
  /// There is no bound on the length of the list.
  ///
  /// Errors: Error{invalid_argument} an undefined tensor.
  void append_gradients_by_param_id(at::Tensor grad, std::int64_t group_id, std::int64_t param_id);

  /// The same with a range of the caller's.
  /// Errors: as above; Error{invalid_argument} unless 0 <= begin <= end, 0 <= padding,
  ///         end - begin + padding == grad.numel() and, registered, end <= numel of the param.
  void append_gradients_by_param_id(at::Tensor grad, std::int64_t group_id, std::int64_t param_id,
                                    SliceRange range);

  /// Adds `grad` to a slice in place, without recording it for autograd.
  ///
  /// Shape:  any that broadcasts to the slice's; the slice keeps its shape, dtype and device.
  /// Index:  `slice_index` counts from the end when negative, -1 being the last.
  /// Errors: Error{not_found} unknown group, unknown param in it, or no slice at `slice_index`;
  ///         {invalid_argument} LibTorch refuses the addition: shape, dtype, device, or an
  ///         undefined tensor; {busy} no memory left on the device. All name param and group.
  /// Source: at::Tensor::add_ (type promotion and broadcasting).
  void add_gradients_by_param_id(const at::Tensor& grad, std::int64_t slice_index,
                                 std::int64_t group_id, std::int64_t param_id);

  /// The slices of a param in the order of their append; empty when group or param is absent.
  /// The list is the caller's own, the tensors are the store's.
  std::vector<at::Tensor> get_partitioned_gradients_by_param_id(std::int64_t group_id,
                                                                std::int64_t param_id) const;

  /// The slice at working_index() of each param of the group; empty when the group is absent.
  /// Errors: Error{not_found} a param has no slice there (yet), naming it.
  std::vector<at::Tensor> get_working_grads_by_group_id(std::int64_t group_id) const;

  /// The slice at working_index() of the param, from the first group that has the param; nothing
  /// when none has. Errors: Error{not_found} the param has no slice there (yet), naming it.
  std::optional<at::Tensor> get_working_grad_by_param_id(std::int64_t param_id) const;

  /// The param under which this very tensor was appended, the last one if there were several;
  /// nothing for every other tensor, also one that shares its memory. Answers for every tensor
  /// appended since the last reset_all_gradients() and still alive, be it in the store or not.
  std::optional<std::int64_t> get_param_id_for_grad(const at::Tensor& grad) const;

  /// Drops the slices of a group. The group itself stays, empty, in its place in the order of
  /// groups; one that is absent is created. Ids of the dropped tensors still resolve.
  void reset_grads_by_group_id(std::int64_t group_id);

  /// Drops all slices, groups and ids of tensors. Registrations stay.
  void reset_all_gradients();

 private:
  friend struct GradientStoreAccess;  // What capture and restore see: src/torch.
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gradstore
