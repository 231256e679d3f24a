// What capture and restore see of a GradientStore.
//
// Invariant: every param in a group holds at least one slice.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gradstore/gradient_store.h"

namespace gradstore {

struct RegisteredParam {
  std::int64_t param_id = 0;
  std::size_t position = 0;  ///< In the order of registration, from 0.
  std::int64_t numel = 1;    ///< Elements of the whole param.
  ParamRegistration registration;
};

struct StoredSlice {
  at::Tensor tensor;
  SliceRange range;
};

struct StoredParam {
  std::int64_t param_id = 0;
  std::vector<StoredSlice> slices;                    ///< In the order of their append.
  std::shared_ptr<const RegisteredParam> registered;  ///< Null when the id has no registration.
};

struct StoredGroup {
  std::int64_t group_id = 0;
  std::vector<StoredParam> params;  ///< In the order of their first slice.
};

/// The store while it is locked: references into it, good only inside the callback that gets it.
/// What is to outlive that is copied out; tensors and registrations are cheap handles.
struct GradientStoreView {
  const std::vector<StoredGroup>& groups;  ///< In order of appearance, empty ones included.
  const std::vector<std::shared_ptr<const RegisteredParam>>& registered;  ///< All, in order.
  std::vector<std::shared_ptr<const RegisteredParam>> without_slices;     ///< Of those, in order.
};

struct GradientStoreAccess {
  /// Calls `look` under the store's lock: all other calls wait until it returns. `look` must not
  /// call the store. Passes on what `look` throws.
  static void with_contents(const GradientStore& store,
                            const std::function<void(const GradientStoreView&)>& look);

  /// Drops everything as reset_all_gradients() does and installs `groups`, in their order, in one
  /// step; every tensor given resolves to its param's id. Registrations stay as they are, and
  /// `StoredParam::registered` is not looked at. A param without slices is left out, a group
  /// without params is kept.
  ///
  /// Errors: Error{invalid_argument} a group twice, a param twice in a group, an undefined tensor,
  ///         or a range as append refuses it; the store is as before.
  static void replace_contents(GradientStore& store, std::vector<StoredGroup> groups);

  /// Tensors remembered for get_param_id_for_grad(), dead ones not yet forgotten included.
  static std::size_t num_known_tensors(const GradientStore& store);
};

}  // namespace gradstore
