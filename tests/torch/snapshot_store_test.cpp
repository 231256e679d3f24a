#include "gradstore/snapshot_store.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "gradstore/gradient_store.h"
#include "support/fails_with.h"
#include "support/faulty_file_system.h"
#include "support/temp_dir.h"

namespace gradstore {
namespace {

using testing::fails_with;
using testing::FaultyFileSystem;

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const auto x = a.contiguous();
  const auto y = b.contiguous();
  return std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

// Three params in two groups, one of them without gradient; ids differ from process to process.
class Model {
 public:
  explicit Model(std::int64_t first_id, GradientStoreOptions options = {})
      : gradients(options), id_(first_id) {
    gradients.register_param(id_, "embed", 0, at::zeros({10, 4}));
    gradients.register_param(id_ + 1, "head", 1, at::zeros({7}));
    gradients.register_param(id_ + 2, "unused", 1, at::zeros({3}));
  }

  void backward(double value) {
    // Reverse order, as backward goes: group 1 appears first.
    accumulate(1, id_ + 1, at::full({7}, value));
    accumulate(0, id_, at::full({10, 4}, value) + at::arange(40).reshape({10, 4}));
  }

  std::vector<at::Tensor> grads() const {
    std::vector<at::Tensor> all;
    for (const auto group : {0, 1}) {
      for (const auto& grad : gradients.get_working_grads_by_group_id(group))
        all.push_back(grad.clone());
    }
    return all;
  }

  GradientStore gradients;

 private:
  void accumulate(std::int64_t group, std::int64_t id, at::Tensor grad) {
    if (gradients.get_partitioned_gradients_by_param_id(group, id).empty()) {
      gradients.append_gradients_by_param_id(std::move(grad), group, id);
    } else {
      gradients.add_gradients_by_param_id(grad, 0, group, id);
    }
  }
  std::int64_t id_;
};

class SnapshotStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<SnapshotStore> open(StoreOptions options = {}) {
    return SnapshotStore::open(dir_ / "store", std::move(options));
  }
  static void expect_same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same_bits(a[i], b[i])) << i;
  }
  std::filesystem::path file_of(SnapshotId id) {
    return dir_ / "store/rank-00000/snapshots" / (to_string(id) + ".h5");
  }

  testing::TempDir dir_;
};

TEST_F(SnapshotStoreTest, RestoresInAnotherProcesssIdsWithOrderAndBits) {
  auto store = open({.run_name = "test"});
  Model before(1000);
  before.backward(0.1);
  before.backward(0.2);
  const auto ticket =
      store->snapshot(before.gradients, {.step = 5, .micro_step = 2, .accumulation_steps = 4});
  ticket.wait();
  const auto expected = before.grads();
  store->close();

  store = open();
  Model after(777'000);
  const auto info = store->latest();
  ASSERT_TRUE(info);
  EXPECT_EQ(info->metadata.step, 5u);
  EXPECT_EQ(info->metadata.micro_step, 2u);
  EXPECT_EQ(info->num_slices, 2u);
  EXPECT_EQ(info->num_params, 3u);
  const auto report = store->restore(info->id, after.gradients);
  EXPECT_TRUE(report.missing.empty());
  EXPECT_TRUE(report.unexpected.empty());
  expect_same(after.grads(), expected);
  EXPECT_FALSE(after.gradients.get_working_grad_by_param_id(777'002));

  // Accumulation goes on as if nothing had happened.
  before.backward(0.3);
  after.backward(0.3);
  expect_same(after.grads(), before.grads());
  const auto grad = after.gradients.get_working_grads_by_group_id(1).at(0);
  EXPECT_EQ(after.gradients.get_param_id_for_grad(grad), 777'001);
}

TEST_F(SnapshotStoreTest, WhatChangesRightAfterTheCallIsNotInTheSnapshot) {
  auto store = open();
  const auto big = at::randn({3'000'000});
  GradientStore gradients;
  gradients.register_param(1, "big", 0, big);
  gradients.append_gradients_by_param_id(big.clone(), 0, 1);
  const auto scalar = at::full({}, 3.0);
  CompanionState state{{{"scalar", scalar}}, R"({"position":17})"};
  for (int round = 0; round < 5; ++round) {
    const auto grad = gradients.get_working_grads_by_group_id(0).at(0);
    const auto expected = grad.clone();
    const auto expected_scalar = scalar.clone();
    SnapshotMetadata metadata{.step = static_cast<std::uint64_t>(round)};
    const auto ticket = store->snapshot(gradients, metadata, state);
    grad.fill_(-1.0 - round);
    scalar.add_(1);
    state.json = "changed";
    metadata.step = 99;
    ticket.wait();
    state.json = R"({"position":17})";
    EXPECT_TRUE(same_bits(store->read(ticket.id(), "big"), expected));
    EXPECT_TRUE(same_bits(store->read_state(ticket.id()).at("scalar"), expected_scalar));
    EXPECT_EQ(store->read_state(ticket.id()).json, R"({"position":17})");
    EXPECT_EQ(store->latest()->metadata.step, static_cast<std::uint64_t>(round));
  }
}

TEST_F(SnapshotStoreTest, WhatCannotBeStoredIsRefusedByNameBeforeAnythingIsWritten) {
  auto store = open();
  const auto expect_refused = [&](const at::Tensor& tensor, const std::string& why) {
    Model model(1);
    model.backward(1);
    model.gradients.register_param(50, "odd one", 1, at::zeros({4}));
    model.gradients.append_gradients_by_param_id(tensor, 1, 50);
    EXPECT_THAT([&] { store->snapshot(model.gradients, {}); },
                fails_with(ErrorCode::invalid_argument, "\"odd one\""));
    EXPECT_THAT([&] { store->snapshot(model.gradients, {}); },
                fails_with(ErrorCode::invalid_argument, why));
    CompanionState state{{{"odd state", tensor}}, "{}"};
    EXPECT_THAT([&] { store->snapshot(Model(1).gradients, {}, state); },
                fails_with(ErrorCode::invalid_argument, "\"odd state\""));
  };
  expect_refused(at::quantize_per_tensor(at::zeros({4}), 0.1, 0, at::kQInt8), "QInt8");
  expect_refused(at::empty({4}, at::TensorOptions().device(at::kMeta)), "meta");
  Model unnamed(1);
  unnamed.gradients.append_gradients_by_param_id(at::zeros({2}), 0, 4711);
  EXPECT_THAT([&] { store->snapshot(unnamed.gradients, {}); },
              fails_with(ErrorCode::invalid_argument, "4711"));
  Model elsewhere(1);  // in a group in which restore() would not look for it
  elsewhere.gradients.append_gradients_by_param_id(at::zeros({10, 4}), 8, 1);
  EXPECT_THAT([&] { store->snapshot(elsewhere.gradients, {}); },
              fails_with(ErrorCode::invalid_argument,
                         "\"embed\" cannot be stored: it has gradients in group 8"));
  EXPECT_THAT([&] { store->snapshot(Model(1).gradients, {.user_json = "{"}); },
              fails_with(ErrorCode::invalid_argument));
  EXPECT_TRUE(store->list().empty());
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / "store/rank-00000/snapshots"));
}

TEST_F(SnapshotStoreTest, NoSnapshotDamagedAndIncompatibleAreThreeErrors) {
  auto store = open();
  Model model(1);
  EXPECT_FALSE(store->latest());
  EXPECT_FALSE(store->latest_good());
  EXPECT_THAT(
      [&] {
        store->restore({1, 9}, model.gradients);
      },
      fails_with(ErrorCode::not_found, "0001-00000009"));
  model.backward(1);
  const auto first = store->snapshot(model.gradients, {.step = 1});
  const auto second = store->snapshot(model.gradients, {.step = 2});
  second.wait();
  {
    std::fstream file(file_of(second.id()), std::ios::in | std::ios::out | std::ios::binary);
    const auto last_page =
        static_cast<std::streamoff>(std::filesystem::file_size(file_of(second.id())) - 4096);
    file.seekp(last_page).put('\x55');
  }
  const auto before = model.grads();
  EXPECT_THAT([&] { store->restore(second.id(), model.gradients); },
              fails_with(ErrorCode::corrupt, "slice 0"));
  expect_same(model.grads(), before);
  EXPECT_EQ(store->latest()->id, second.id());
  EXPECT_EQ(store->latest_good()->id, first.id());
  GradientStore other;
  other.register_param(1, "embed", 0, at::zeros({10, 4}));
  other.register_param(2, "tail", 0, at::zeros({3}));
  EXPECT_THAT([&] { store->restore(first.id(), other); },
              fails_with(ErrorCode::incompatible, "missing in the snapshot: \"tail\""));
  EXPECT_THAT([&] { store->restore(first.id(), other); },
              fails_with(ErrorCode::incompatible, "unknown to the target: \"head\", \"unused\""));
  EXPECT_THAT([&] { store->read(first.id(), "nobody"); },
              fails_with(ErrorCode::not_found, "param \"nobody\""));
  EXPECT_THAT([&] { store->read(first.id(), "head", 3); },
              fails_with(ErrorCode::not_found, "slice 3"));
  EXPECT_THAT([&] { store->read_state(first.id()); },
              fails_with(ErrorCode::not_found, "no companion state"));
}

TEST_F(SnapshotStoreTest, RestoreIsStrictAboutShapeDtypeGroupAndPartitioning) {
  auto store = open();
  Model model(1);
  model.backward(1);
  const auto ticket = store->snapshot(model.gradients, {});
  ticket.wait();
  const auto try_restore = [&](const std::string& name, std::int64_t group, const at::Tensor& like,
                               GradientStoreOptions options = {}) {
    GradientStore other(options);
    other.register_param(1, "embed", 0, at::zeros({10, 4}));
    other.register_param(3, "unused", 1, at::zeros({3}));
    other.register_param(2, name, group, like);
    store->restore(ticket.id(), other, {.partial = true});
  };
  EXPECT_NO_THROW(try_restore("head", 1, at::zeros({7})));
  EXPECT_THAT([&] { try_restore("head", 1, at::zeros({8})); },
              fails_with(ErrorCode::incompatible, "shape [7] in the snapshot and [8]"));
  EXPECT_THAT([&] { try_restore("head", 1, at::zeros({7}, at::kDouble)); },
              fails_with(ErrorCode::incompatible, "float32"));
  EXPECT_THAT([&] { try_restore("head", 0, at::zeros({7})); },
              fails_with(ErrorCode::incompatible, "group 1"));
  EXPECT_THAT([&] { try_restore("head", 1, at::zeros({7}), {.world_size = 2}); },
              fails_with(ErrorCode::incompatible, "world size 2"));
  EXPECT_THAT([&] { try_restore("head", 1, at::zeros({7}), {.partition_grad = true}); },
              fails_with(ErrorCode::incompatible, "partitioned"));
}

TEST_F(SnapshotStoreTest, PartialRestoreListsWhatItLeftOut) {
  auto store = open();
  Model model(1);
  model.backward(1);
  const auto ticket = store->snapshot(model.gradients, {});
  ticket.wait();
  GradientStore other;
  other.register_param(1, "embed", 0, at::zeros({10, 4}));
  other.register_param(2, "tail", 0, at::zeros({3}));
  const auto report = store->restore(ticket.id(), other, {.partial = true});
  EXPECT_EQ(report.missing, std::vector<std::string>{"tail"});
  EXPECT_EQ(report.unexpected, (std::vector<std::string>{"head", "unused"}));
  EXPECT_TRUE(same_bits(*other.get_working_grad_by_param_id(1),
                        *model.gradients.get_working_grad_by_param_id(1)));
}

TEST_F(SnapshotStoreTest, ShardedSlicesKeepRangePaddingAndPlace) {
  GradientStore gradients({.world_size = 2, .local_rank = 1});
  gradients.register_param(1, "w", 0, at::zeros({5}));
  gradients.append_gradients_by_param_id(at::arange(3, at::kFloat), 0, 1);
  gradients.append_gradients_by_param_id(at::arange(3, at::kFloat) + 10, 0, 1);
  auto store = open();
  const auto ticket = store->snapshot(gradients, {});
  ticket.wait();
  EXPECT_TRUE(same_bits(store->read(ticket.id(), "w", 1), at::arange(3, at::kFloat) + 10));
  gradients.reset_all_gradients();
  store->restore(ticket.id(), gradients);
  ASSERT_EQ(gradients.get_partitioned_gradients_by_param_id(0, 1).size(), 2u);
  EXPECT_TRUE(
      same_bits(*gradients.get_working_grad_by_param_id(1), at::arange(3, at::kFloat) + 10));
}

TEST_F(SnapshotStoreTest, EmptyGroupsAndAnEmptyStoreSurvive) {
  auto store = open();
  GradientStore gradients;
  const auto empty = store->snapshot(gradients, {.step = 0});
  gradients.register_param(1, "a", 5, at::zeros({2}));
  gradients.append_gradients_by_param_id(at::zeros({2}), 5, 1);
  gradients.reset_grads_by_group_id(5);
  const auto reset = store->snapshot(gradients, {.step = 1});
  reset.wait();
  EXPECT_EQ(store->list().at(0).num_groups, 0u);
  GradientStore nothing;
  EXPECT_NO_THROW(store->restore(empty.id(), nothing));
  EXPECT_NO_THROW(store->restore(reset.id(), gradients));
}

TEST_F(SnapshotStoreTest, GroupsComeBackInTheirOrderAndNoOthersDo) {
  // First hit wins, so the order of groups shows where two hold the same param.
  auto store = open();
  const auto fill = [](GradientStore& gradients) {
    gradients.register_param(1, "shared", 5, at::zeros({2}));
    gradients.register_param(2, "absent", 0, at::zeros({2}));
  };
  GradientStore before;
  fill(before);
  before.append_gradients_by_param_id(at::full({2}, 5.0), 5, 1);
  const auto only_group_5 = store->snapshot(before, {.step = 0});
  before.append_gradients_by_param_id(at::full({2}, 0.0), 0, 1);
  const auto both = store->snapshot(before, {.step = 1});
  both.wait();

  GradientStore after;
  fill(after);
  store->restore(both.id(), after);
  EXPECT_EQ((*after.get_working_grad_by_param_id(1))[0].item<float>(), 5.0f);
  store->restore(only_group_5.id(), after);
  after.append_gradients_by_param_id(at::full({2}, 7.0), 7, 2);
  after.append_gradients_by_param_id(at::full({2}, 0.5), 0, 2);
  EXPECT_EQ((*after.get_working_grad_by_param_id(2))[0].item<float>(), 7.0f)
      << "group 0 came after group 7";
}

TEST_F(SnapshotStoreTest, FindAnswersWithTheNewestAttemptAndLatestGoesByIdNotByStep) {
  Model model(1);
  model.backward(1);
  auto store = open();
  store->snapshot(model.gradients, {.step = 7, .micro_step = 2});
  store->snapshot(model.gradients, {.step = 8, .micro_step = 2}).wait();
  store->close();
  store = open();
  store->snapshot(model.gradients, {.step = 7, .micro_step = 2}).wait();
  EXPECT_EQ(store->find(7, 2, Stage::post_reduce)->id, (SnapshotId{2, 1}));
  EXPECT_EQ(store->find(8, 2, Stage::post_reduce)->id, (SnapshotId{1, 2}));
  EXPECT_FALSE(store->find(7, 3, Stage::post_reduce));
  EXPECT_FALSE(store->find(7, 2, Stage::clipped));
  EXPECT_EQ(store->latest()->metadata.step, 7u);
  EXPECT_EQ(store->list().size(), 3u);
}

TEST_F(SnapshotStoreTest, PinsAreKept) {
  Model model(1);
  auto store = open();
  const auto ticket = store->snapshot(model.gradients, {});
  ticket.wait();
  store->pin(ticket.id());
  store = nullptr;
  store = open();
  EXPECT_TRUE(store->latest()->pinned);
  store->unpin(ticket.id());
  EXPECT_FALSE(store->latest()->pinned);
  EXPECT_THAT([&] { store->pin({9, 9}); }, fails_with(ErrorCode::not_found));
}

TEST_F(SnapshotStoreTest, ASnapshotLargerThanTheStagingMemoryIsWholeAndFailingOnRequestIsBusy) {
  GradientStore gradients;
  const auto big = at::randn({10'000'000});  // 40 MB in 8 MiB of staging
  gradients.register_param(1, "big", 0, big);
  gradients.append_gradients_by_param_id(big, 0, 1);
  auto store = open({.staging_bytes = 8u << 20});
  const auto ticket = store->snapshot(gradients, {});
  ticket.wait();
  EXPECT_TRUE(same_bits(store->read(ticket.id(), "big"), big));
}

TEST_F(SnapshotStoreTest, AFullStagingMemoryFailsOnlyWhereThatWasChosen) {
  const auto files = std::make_shared<FaultyFileSystem>();
  std::mutex gate;
  files->set_hook([&](std::string_view operation, const io::Path&) {
    if (operation == "write") const std::lock_guard wait(gate);
  });
  Model model(1);
  model.backward(1);
  auto store = open({.staging_bytes = 8u << 20, .when_full = WhenFull::fail, .file_system = files});
  std::optional<Ticket> first;
  {
    const std::lock_guard hold(gate);
    first = store->snapshot(model.gradients, {.step = 1});
    EXPECT_THAT([&] { store->snapshot(model.gradients, {.step = 2}); },
                fails_with(ErrorCode::busy, "staging memory"));
  }
  first->wait();
  EXPECT_NO_THROW(store->snapshot(model.gradients, {.step = 3}).wait());
  EXPECT_EQ(store->list().size(), 2u);
}

TEST_F(SnapshotStoreTest, AFailedSnapshotIsToldOnceAndTheNextWorks) {
  const auto files = std::make_shared<FaultyFileSystem>();
  Model model(1);
  model.backward(1);
  auto store = open({.file_system = files});
  files->arm(3);
  const auto lost = store->snapshot(model.gradients, {.step = 12, .micro_step = 3});
  while (!lost.done()) std::this_thread::yield();
  EXPECT_THAT([&] { store->snapshot(model.gradients, {}); },
              fails_with(ErrorCode::io, "step 12, micro-step 3"));
  EXPECT_NO_THROW(store->snapshot(model.gradients, {.step = 13}).wait());
  EXPECT_EQ(store->list().size(), 1u);
  EXPECT_THROW(lost.wait(), Error);
  files->arm(3);
  const auto last = store->snapshot(model.gradients, {.step = 14});
  while (!last.done()) std::this_thread::yield();
  EXPECT_THAT([&] { store->close(); }, fails_with(ErrorCode::io, "step 14"));
  EXPECT_NO_THROW(store->close());
  EXPECT_THAT([&] { store->list(); }, fails_with(ErrorCode::invalid_argument, "closed"));
}

// Once through LibTorch and HDF5: the n-th operation of a save fails, for every n.
TEST_F(SnapshotStoreTest, FailureAtAnyOperationLeavesTheSnapshotWholeOrAbsent) {
  const auto files = std::make_shared<FaultyFileSystem>();
  Model model(1);
  model.backward(0.5);
  const auto expected = model.grads();
  CompanionState state{{{"weights", at::randn({100})}}, "{}"};
  auto store = open({.file_system = files});
  const auto first = store->snapshot(model.gradients, {.step = 1}, state);
  first.wait();
  for (std::size_t nth = 1;; ++nth) {
    SCOPED_TRACE(nth);
    files->arm(nth);
    bool acknowledged = true;
    const auto ticket = store->snapshot(model.gradients, {.step = 2}, state);
    try {
      ticket.wait();
    } catch (const Error& error) {
      acknowledged = false;
      EXPECT_EQ(error.code(), ErrorCode::io) << error.what();
    }
    const bool fired = files->fired();
    files->disarm();
    store->close();
    store = open({.file_system = files});
    for (const auto& info : store->list()) {
      Model restored(100);
      store->restore(info.id, restored.gradients);
      expect_same(restored.grads(), expected);
      EXPECT_TRUE(same_bits(store->read_state(info.id).at("weights"), state.tensors[0].second));
    }
    if (acknowledged) {
      EXPECT_EQ(store->latest()->id, ticket.id());
    }
    EXPECT_TRUE(store->find(1, 0, Stage::post_reduce));
    if (!fired) break;
  }
}

TEST_F(SnapshotStoreTest, ASecondWriterOfTheRankIsRefusedNamingTheHolder) {
  auto store = open();
  EXPECT_THAT([&] { open(); }, fails_with(ErrorCode::busy, std::to_string(getpid())));
  EXPECT_THAT([&] { open({.rank = 3, .world_size = 2}); },
              fails_with(ErrorCode::invalid_argument, "Rank 3"));
  EXPECT_NO_THROW(open({.rank = 1, .world_size = 2})->close());
  EXPECT_THAT([&] { SnapshotStore::open(dir_.path()); },
              fails_with(ErrorCode::incompatible, "not a gradstore store"));
}

TEST_F(SnapshotStoreTest, MutatingThreadsAndSnapshotsDoNotTearASlice) {
  GradientStore gradients;
  gradients.register_param(1, "w", 0, at::zeros({200'000}));
  gradients.append_gradients_by_param_id(at::zeros({200'000}), 0, 1);
  const auto one = at::full({200'000}, 1.0);
  std::atomic<bool> stop = false;
  std::thread mutator([&] {
    while (!stop) gradients.add_gradients_by_param_id(one, 0, 0, 1);
  });
  auto store = open();
  for (std::uint64_t step = 0; step < 20; ++step) store->snapshot(gradients, {.step = step});
  stop = true;
  mutator.join();
  store->close();
  store = open();
  ASSERT_EQ(store->list().size(), 20u);
  for (const auto& info : store->list()) {
    const auto grad = store->read(info.id, "w");
    EXPECT_TRUE(at::equal(grad, grad[0].expand({200'000}))) << to_string(info.id);
  }
}

}  // namespace
}  // namespace gradstore
