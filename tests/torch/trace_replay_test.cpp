#include "torch/trace_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "gradstore/error.h"
#include "gradstore/gradient_store.h"

namespace gradstore::testing {
namespace {

class OurStore : public ReplayedStore {
 public:
  OurStore(std::int64_t world_size, std::int64_t local_rank, bool partition_grad)
      : store_({world_size, local_rank, partition_grad}) {}

  std::int64_t world_size() const override { return store_.world_size(); }
  std::int64_t local_rank() const override { return store_.local_rank(); }
  std::int64_t working_index() const override { return store_.working_index(); }
  void append(const at::Tensor& grad, std::int64_t group, std::int64_t param) override {
    store_.append_gradients_by_param_id(grad, group, param);
  }
  void add(const at::Tensor& grad, std::int64_t index, std::int64_t group,
           std::int64_t param) override {
    store_.add_gradients_by_param_id(grad, index, group, param);
  }
  std::vector<at::Tensor> partitioned(std::int64_t group, std::int64_t param) const override {
    return store_.get_partitioned_gradients_by_param_id(group, param);
  }
  std::vector<at::Tensor> working_of_group(std::int64_t group) const override {
    return store_.get_working_grads_by_group_id(group);
  }
  std::optional<at::Tensor> working_of_param(std::int64_t param) const override {
    return store_.get_working_grad_by_param_id(param);
  }
  std::optional<std::int64_t> param_id(const at::Tensor& grad) const override {
    return store_.get_param_id_for_grad(grad);
  }
  void reset_group(std::int64_t group) override { store_.reset_grads_by_group_id(group); }
  void reset_all() override { store_.reset_all_gradients(); }

 private:
  GradientStore store_;
};

// The simplest store that is right, to be made wrong in one respect each by what derives from it.
class PlainStore : public ReplayedStore {
 public:
  PlainStore(std::int64_t world_size, std::int64_t local_rank, bool partition_grad)
      : world_size_(world_size),
        local_rank_(local_rank),
        working_index_(partition_grad ? 0 : local_rank) {}

  std::int64_t world_size() const override { return world_size_; }
  std::int64_t local_rank() const override { return local_rank_; }
  std::int64_t working_index() const override { return working_index_; }
  void append(const at::Tensor& grad, std::int64_t group, std::int64_t param) override {
    slices(group, param).push_back(grad);
    ids_[grad.unsafeGetTensorImpl()] = param;
  }
  void add(const at::Tensor& grad, std::int64_t index, std::int64_t group,
           std::int64_t param) override {
    slices(group, param).at(static_cast<std::size_t>(index)).add_(grad);
  }
  std::vector<at::Tensor> partitioned(std::int64_t group, std::int64_t param) const override {
    for (const auto& [group_id, params] : groups_) {
      if (group_id != group) continue;
      for (const auto& [id, grads] : params) {
        if (id == param) return grads;
      }
    }
    return {};
  }
  std::vector<at::Tensor> working_of_group(std::int64_t group) const override {
    std::vector<at::Tensor> working;
    for (const auto& [group_id, params] : groups_) {
      if (group_id != group) continue;
      for (const auto& [id, grads] : params) working.push_back(working_in(grads));
    }
    return working;
  }
  std::optional<at::Tensor> working_of_param(std::int64_t param) const override {
    for (const auto& [group_id, params] : groups_) {
      for (const auto& [id, grads] : params) {
        if (id == param) return working_in(grads);
      }
    }
    return std::nullopt;
  }
  std::optional<std::int64_t> param_id(const at::Tensor& grad) const override {
    const auto id = ids_.find(grad.unsafeGetTensorImpl());
    return id == ids_.end() ? std::nullopt : std::optional(id->second);
  }
  void reset_group(std::int64_t group) override { in_group(group).clear(); }
  void reset_all() override {
    groups_.clear();
    ids_.clear();
  }

 protected:
  using Slices = std::vector<at::Tensor>;
  using Params = std::vector<std::pair<std::int64_t, Slices>>;

  virtual at::Tensor working_in(const Slices& grads) const {
    return grads.at(static_cast<std::size_t>(working_index_));
  }
  template <typename Pairs>
  static auto& find_or_add(Pairs& pairs, std::int64_t id) {
    for (auto& pair : pairs) {
      if (pair.first == id) return pair.second;
    }
    pairs.push_back({id, {}});
    return pairs.back().second;
  }

  Params& in_group(std::int64_t group) { return find_or_add(groups_, group); }
  Slices& slices(std::int64_t group, std::int64_t param) {
    return find_or_add(in_group(group), param);
  }

  std::vector<std::pair<std::int64_t, Params>> groups_;
  std::unordered_map<const c10::TensorImpl*, std::int64_t> ids_;

 private:
  std::int64_t world_size_, local_rank_, working_index_;
};

struct KeepsCopies : PlainStore {
  using PlainStore::PlainStore;
  void append(const at::Tensor& grad, std::int64_t group, std::int64_t param) override {
    PlainStore::append(grad.clone(), group, param);
  }
};

struct SortsParams : PlainStore {
  using PlainStore::PlainStore;
  void append(const at::Tensor& grad, std::int64_t group, std::int64_t param) override {
    PlainStore::append(grad, group, param);
    std::sort(in_group(group).begin(), in_group(group).end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
  }
};

struct WorksOnTheFirstSlice : PlainStore {
  using PlainStore::PlainStore;
  at::Tensor working_in(const Slices& grads) const override { return grads.front(); }
};

struct AddsOutOfPlace : PlainStore {
  using PlainStore::PlainStore;
  void add(const at::Tensor& grad, std::int64_t index, std::int64_t group,
           std::int64_t param) override {
    at::Tensor& slice = slices(group, param).at(static_cast<std::size_t>(index));
    const at::Tensor sum = slice.add(grad);
    ids_[sum.unsafeGetTensorImpl()] = param;
    slice = sum;
  }
};

struct AddsToTheLastSlice : PlainStore {
  using PlainStore::PlainStore;
  void add(const at::Tensor& grad, std::int64_t, std::int64_t group, std::int64_t param) override {
    slices(group, param).back().add_(grad);
  }
};

struct KeepsIdsThroughReset : PlainStore {
  using PlainStore::PlainStore;
  void reset_all() override { groups_.clear(); }
};

struct PrependsSlices : PlainStore {
  using PlainStore::PlainStore;
  void append(const at::Tensor& grad, std::int64_t group, std::int64_t param) override {
    PlainStore::append(grad, group, param);
    Slices& grads = slices(group, param);
    std::rotate(grads.rbegin(), grads.rbegin() + 1, grads.rend());
  }
};

struct KnowsParamsByStorage : PlainStore {
  using PlainStore::PlainStore;
  void append(const at::Tensor& grad, std::int64_t group, std::int64_t param) override {
    PlainStore::append(grad, group, param);
    by_storage_[grad.storage().unsafeGetStorageImpl()] = param;
  }
  std::optional<std::int64_t> param_id(const at::Tensor& grad) const override {
    const auto id = by_storage_.find(grad.storage().unsafeGetStorageImpl());
    return id == by_storage_.end() ? std::nullopt : std::optional(id->second);
  }
  void reset_all() override {
    PlainStore::reset_all();
    by_storage_.clear();
  }
  std::unordered_map<const c10::StorageImpl*, std::int64_t> by_storage_;
};

template <typename Store>
std::unique_ptr<ReplayedStore> make(std::int64_t world_size, std::int64_t local_rank,
                                    bool partition_grad) {
  return std::make_unique<Store>(world_size, local_rank, partition_grad);
}

// The first difference that any trace finds; empty when the store passes all of them.
std::string first_mismatch(const MakeStore& make_store) {
  for (const auto& trace : all_traces()) {
    try {
      replay(trace, make_store);
    } catch (const ReplayMismatch& mismatch) {
      return mismatch.what();
    }
  }
  return "";
}

void expect_passes_all(const MakeStore& make_store) {
  const auto traces = all_traces();
  ASSERT_EQ(traces.size(), 26u);
  for (const auto& trace : traces) {
    SCOPED_TRACE(trace.filename());
    ReplayCounts counts;
    ASSERT_NO_THROW(counts = replay(trace, make_store));
    EXPECT_GT(counts.replayed, 0u);
    EXPECT_EQ(counts.replayed, counts.recorded);
    EXPECT_GT(counts.compared, 0u);
  }
}

TEST(TraceReplayTest, OurStoreAnswersEveryRecordedCallAsTheReferenceDid) {
  expect_passes_all(make<OurStore>);
}

TEST(TraceReplayTest, PlainStoreThatTheWrongOnesDeriveFromPasses) {
  expect_passes_all(make<PlainStore>);
}

TEST(TraceReplayTest, StoreThatKeepsCopiesIsCaught) {
  EXPECT_THAT(first_mismatch(make<KeepsCopies>), ::testing::HasSubstr("never appended"));
}

TEST(TraceReplayTest, StoreThatSortsParamsIsCaught) {
  EXPECT_THAT(first_mismatch(make<SortsParams>), ::testing::HasSubstr("got ["));
}

TEST(TraceReplayTest, StoreThatWorksOnTheWrongSliceIsCaught) {
  EXPECT_THAT(first_mismatch(make<WorksOnTheFirstSlice>), ::testing::HasSubstr("rank1"));
}

TEST(TraceReplayTest, StoreThatReplacesASliceInsteadOfAddingInPlaceIsCaught) {
  EXPECT_THAT(first_mismatch(make<AddsOutOfPlace>), ::testing::HasSubstr("never appended"));
}

TEST(TraceReplayTest, StoreThatAddsToTheWrongSliceIsCaught) {
  EXPECT_THAT(first_mismatch(make<AddsToTheLastSlice>), ::testing::HasSubstr("other values"));
}

TEST(TraceReplayTest, StoreThatKeepsIdsThroughResetIsCaught) {
  EXPECT_THAT(first_mismatch(make<KeepsIdsThroughReset>), ::testing::HasSubstr("resolves after"));
}

TEST(TraceReplayTest, StoreThatReversesSlicesIsCaught) {
  EXPECT_THAT(first_mismatch(make<PrependsSlices>), ::testing::HasSubstr("got ["));
}

TEST(TraceReplayTest, StoreThatKnowsParamsByStorageIsCaught) {
  EXPECT_THAT(first_mismatch(make<KnowsParamsByStorage>), ::testing::HasSubstr("another param"));
}

}  // namespace
}  // namespace gradstore::testing
