#include "torch/trace_replay.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <zlib.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <unordered_map>
#include <utility>

namespace gradstore::testing {
namespace {

using nlohmann::json;

std::string read_gzip(const std::filesystem::path& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw std::runtime_error("cannot open " + path.string());
  std::string text;
  char block[1 << 16];
  int length = 0;
  while ((length = gzread(file.get(), block, sizeof block)) > 0) {
    text.append(block, static_cast<std::size_t>(length));
  }
  if (length < 0 || gzeof(file.get()) == 0) {
    throw std::runtime_error("cannot read all of " + path.string());
  }
  return text;
}

at::ScalarType dtype_named(const std::string& name) {
  if (name == "float32") return at::kFloat;
  if (name == "float16") return at::kHalf;
  if (name == "bfloat16") return at::kBFloat16;
  throw std::runtime_error("a trace has the unknown dtype " + name);
}

// Stands in for Python's id(param): beyond 32 bits, in steps of an object's size.
std::int64_t id_of_param(std::int64_t param) { return 139'000'000'000'000 + 80 * param; }

class Replay {
 public:
  Replay(std::string trace, const json& meta, const MakeStore& make_store)
      : trace_(std::move(trace)), make_store_(make_store) {
    for (const json& param : meta.at("params")) groups_.insert(param.at("g").get<std::int64_t>());
  }

  void call(const json& line) {
    line_ = &line;
    const auto& method = line.at("f").get_ref<const std::string&>();
    const auto store_number = line.at("s").get<std::int64_t>();
    if (method == "__init__") {
      init(store_number);
      return;
    }
    ReplayedStore& store = *stores_.at(store_number);

    if (method == "append_gradients_by_param_id") {
      append(store);
    } else if (method == "add_gradients_by_param_id") {
      add(store);
    } else if (method == "get_partitioned_gradients_by_param_id") {
      expect_handles(store.partitioned(group(), param()));
    } else if (method == "get_working_grads_by_group_id") {
      expect_handles(store.working_of_group(group()));
    } else if (method == "get_working_grad_by_param_id") {
      const std::optional<at::Tensor> grad = store.working_of_param(param());
      expect(json(grad ? json(checked_handle(*grad)) : json()));
    } else if (method == "get_param_id_for_grad") {
      const json& recorded = line.at("r");
      const auto id = store.param_id(tensors_.at(line.at("h").get<std::int64_t>()));
      const auto expected = recorded.is_null()
                                ? std::nullopt
                                : std::optional(id_of_param(recorded.get<std::int64_t>()));
      if (id != expected) mismatch("the id of another param came back, or none, or one too many");
    } else if (method == "reset_grads_by_group_id") {
      store.reset_group(group());
    } else if (method == "reset_all_gradients") {
      reset_all(store);
    } else if (method == "get:local_rank") {
      if (store.local_rank() != local_ranks_.at(store_number)) mismatch("another local rank");
    } else if (method == "get:world_size") {
      if (store.world_size() != world_sizes_.at(store_number)) mismatch("another world size");
    } else if (method != "get:torch_pg") {  // Of the Python layer: there are no groups in C++.
      throw std::runtime_error(trace_ + " has the unknown call " + method);
    }
  }

  std::size_t compared() const { return compared_; }

 private:
  void init(std::int64_t store_number) {
    const auto world_size = line_->at("ws").get<std::int64_t>();
    const auto local_rank = line_->at("lr").get<std::int64_t>();
    world_sizes_[store_number] = world_size;
    local_ranks_[store_number] = local_rank;
    stores_[store_number] = make_store_(world_size, local_rank, line_->at("pg").get<bool>());
    if (stores_[store_number]->working_index() != line_->at("wi").get<std::int64_t>()) {
      mismatch("another working index");
    }
  }

  // Makes the tensor as the client did: an empty one whose data became a view of a bucket.
  void append(ReplayedStore& store) {
    const json& tensor = line_->at("t");
    const auto dtype = dtype_named(tensor.at("dt"));
    const auto bucket_bytes = tensor.at("stb").get<std::int64_t>();
    const auto key = std::pair(tensor.at("st").get<std::int64_t>(), bucket_bytes);
    auto bucket = buckets_.find(key);
    if (bucket == buckets_.end()) {
      const auto item_size = static_cast<std::int64_t>(c10::elementSize(dtype));
      bucket = buckets_.emplace(key, at::zeros({bucket_bytes / item_size}, dtype)).first;
    }
    const auto handle = tensor.at("h").get<std::int64_t>();
    const auto shape = tensor.at("sh").get<std::vector<std::int64_t>>();
    const at::Tensor view =
        at::as_strided(bucket->second, shape, {1}, tensor.at("off").get<std::int64_t>());
    view.copy_(at::arange(view.numel()).remainder(7).add(handle % 5).to(dtype));

    at::Tensor grad = at::empty({0}, dtype);
    grad.set_data(view);
    tensors_[handle] = grad;
    handles_[grad.unsafeGetTensorImpl()] = handle;
    expected_values_[handle] = view.clone();
    store.append(grad, group(), param());
  }

  void add(ReplayedStore& store) {
    const json& tensor = line_->at("t");
    const auto index = line_->at("i").get<std::int64_t>();
    const at::Tensor grad = at::full(tensor.at("sh").get<std::vector<std::int64_t>>(),
                                     static_cast<double>(index + 1), dtype_named(tensor.at("dt")));
    const auto before = store.partitioned(group(), param());
    const auto handle = checked_handle(before.at(static_cast<std::size_t>(index)));
    store.add(grad, index, group(), param());
    expected_values_.at(handle).add_(grad);
  }

  void reset_all(ReplayedStore& store) {
    store.reset_all();
    for (const auto& [handle, tensor] : tensors_) {
      if (store.param_id(tensor)) {
        mismatch("handle " + std::to_string(handle) + " resolves after reset_all_gradients");
      }
    }
    const bool all_empty = std::all_of(stores_.begin(), stores_.end(), [this](const auto& entry) {
      return std::all_of(groups_.begin(), groups_.end(), [&entry](std::int64_t group_id) {
        return entry.second->working_of_group(group_id).empty();
      });
    });
    if (all_empty) {
      tensors_.clear();
      handles_.clear();
      expected_values_.clear();
      buckets_.clear();
    }
  }

  std::int64_t group() const { return line_->at("g").get<std::int64_t>(); }
  std::int64_t param() const { return id_of_param(line_->at("p").get<std::int64_t>()); }

  // Goes by identity: an equal copy has no handle.
  std::int64_t checked_handle(const at::Tensor& tensor) {
    const auto known = handles_.find(tensor.unsafeGetTensorImpl());
    if (known == handles_.end()) mismatch("a tensor came back that was never appended");
    if (!at::equal(tensor, expected_values_.at(known->second))) {
      mismatch("handle " + std::to_string(known->second) + " has other values than expected");
    }
    ++compared_;
    return known->second;
  }

  void expect_handles(const std::vector<at::Tensor>& grads) {
    json handles = json::array();
    for (const at::Tensor& grad : grads) handles.push_back(checked_handle(grad));
    expect(handles);
  }

  void expect(const json& result) {
    if (result != line_->at("r")) mismatch("got " + result.dump());
  }

  [[noreturn]] void mismatch(const std::string& difference) const {
    throw ReplayMismatch(trace_ + ", call " + line_->dump() + ": " + difference);
  }

  const std::string trace_;
  const MakeStore& make_store_;
  std::set<std::int64_t> groups_;
  const json* line_ = nullptr;  // Of the call under way.
  std::size_t compared_ = 0;

  std::map<std::int64_t, std::unique_ptr<ReplayedStore>> stores_;
  std::map<std::int64_t, std::int64_t> world_sizes_, local_ranks_;
  std::map<std::int64_t, at::Tensor> tensors_;  // By handle.
  std::unordered_map<const c10::TensorImpl*, std::int64_t> handles_;
  std::map<std::int64_t, at::Tensor> expected_values_;  // By handle.
  std::map<std::pair<std::int64_t, std::int64_t>, at::Tensor> buckets_;
};

}  // namespace

ReplayCounts replay(const std::filesystem::path& trace, const MakeStore& make_store) {
  std::istringstream lines(read_gzip(trace));
  std::string text;
  std::getline(lines, text);
  const json meta = json::parse(text);

  ReplayCounts counts;
  counts.recorded = meta.at("calls").get<std::size_t>();
  Replay replay(trace.filename().string(), meta, make_store);
  while (std::getline(lines, text)) {
    replay.call(json::parse(text));
    ++counts.replayed;
  }
  counts.compared = replay.compared();
  return counts;
}

std::vector<std::filesystem::path> all_traces() {
  std::vector<std::filesystem::path> traces;
  for (const auto& entry : std::filesystem::directory_iterator(GRADSTORE_TRACES_DIR)) {
    if (entry.path().extension() == ".gz") traces.push_back(entry.path());
  }
  std::sort(traces.begin(), traces.end());
  return traces;
}

}  // namespace gradstore::testing
