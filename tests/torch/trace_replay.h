// Replays recorded calls of a real client against a store and checks all that comes back.
//
// The traces (traces/*.jsonl.gz) were recorded around the gradient store inside ColossalAI's
// unmodified low-level ZeRO optimizer, in 13 configurations on 2 ranks. The first line tells the
// configuration and the params, each other line is one call, in order:
//   s, f       number of the store, method ("__init__", "get:NAME" for the read of an attribute)
//   g, p, i    group id, param (position in the first line's list), slice index
//   t          tensor argument: sh shape, dt dtype; of an append also h its handle, st and stb
//              number and bytes of the storage it is a view of, off its offset there in elements
//   r          what came back: handles, one handle, a param, or null
//   h          handle of the argument of get_param_id_for_grad
//   ws lr wi pg   of "__init__": world size, local rank, working index, partition_grad
// A handle stands for one tensor object. There are no values in a trace; the replay makes them up.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace gradstore::testing {

/// The part of a gradient store that the traces call.
class ReplayedStore {
 public:
  virtual ~ReplayedStore() = default;
  virtual std::int64_t world_size() const = 0;
  virtual std::int64_t local_rank() const = 0;
  virtual std::int64_t working_index() const = 0;
  virtual void append(const at::Tensor& grad, std::int64_t group, std::int64_t param) = 0;
  virtual void add(const at::Tensor& grad, std::int64_t index, std::int64_t group,
                   std::int64_t param) = 0;
  virtual std::vector<at::Tensor> partitioned(std::int64_t group, std::int64_t param) const = 0;
  virtual std::vector<at::Tensor> working_of_group(std::int64_t group) const = 0;
  virtual std::optional<at::Tensor> working_of_param(std::int64_t param) const = 0;
  virtual std::optional<std::int64_t> param_id(const at::Tensor& grad) const = 0;
  virtual void reset_group(std::int64_t group) = 0;
  virtual void reset_all() = 0;
};

using MakeStore = std::function<std::unique_ptr<ReplayedStore>(
    std::int64_t world_size, std::int64_t local_rank, bool partition_grad)>;

/// The store answered otherwise than the recorded one; tells trace, call and difference.
class ReplayMismatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct ReplayCounts {
  std::size_t recorded = 0;  ///< Calls, as the trace's first line has it.
  std::size_t replayed = 0;
  std::size_t compared = 0;  ///< Tensors that came back and were compared: identity and values.
};

/// Replays one trace.
/// Errors: ReplayMismatch; std::runtime_error a file that cannot be read; whatever the store
/// throws.
ReplayCounts replay(const std::filesystem::path& trace, const MakeStore& make_store);

/// The traces of this folder, sorted by name.
std::vector<std::filesystem::path> all_traces();

}  // namespace gradstore::testing
