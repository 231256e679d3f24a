// A store that was written by the first version is read, and written on, by every later one.
#include <gtest/gtest.h>

#include <filesystem>

#include "archive/store_view.h"
#include "support/temp_dir.h"
#include "torch/format_1_contents.h"

namespace gradstore {
namespace {

std::string bits_of(const at::Tensor& tensor) {
  if (tensor.is_sparse()) return bits_of(tensor._indices()) + bits_of(tensor._values());
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

class Format1Test : public ::testing::Test {
 protected:
  Format1Test() {
    std::filesystem::copy(GRADSTORE_FORMAT_1_STORE, dir_ / "store",
                          std::filesystem::copy_options::recursive);
  }

  static void expect_contents(SnapshotStore& store, SnapshotId id, std::uint64_t seed) {
    GradientStore restored;
    testing::register_format_1(restored);
    store.restore(id, restored);
    const auto expected = testing::format_1_gradients(seed);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto grad = restored.get_working_grad_by_param_id(static_cast<std::int64_t>(i));
      ASSERT_TRUE(grad) << expected[i].first;
      EXPECT_EQ(grad->sizes(), expected[i].second.sizes()) << expected[i].first;
      EXPECT_EQ(bits_of(*grad), bits_of(expected[i].second)) << expected[i].first;
    }
    EXPECT_FALSE(restored.get_working_grad_by_param_id(1000));
    const auto sharded = restored.get_partitioned_gradients_by_param_id(1, 1001);
    ASSERT_EQ(sharded.size(), 2u);
    EXPECT_EQ(bits_of(sharded[1]), bits_of(testing::tensor_of({4}, at::kFloat, seed + 1)));
    const auto state = testing::format_1_state(seed);
    if (seed % 2 == 0) return;
    const auto read = store.read_state(id);
    EXPECT_EQ(read.json, state.json);
    for (const auto& [name, tensor] : state.tensors)
      EXPECT_EQ(bits_of(read.at(name)), bits_of(tensor)) << name;
  }

  testing::TempDir dir_;
};

TEST_F(Format1Test, EverySnapshotIsWholeAndHoldsWhatWasWritten) {
  const auto store = SnapshotStore::open(dir_ / "store");
  const auto all = store->list();
  ASSERT_EQ(all.size(), std::size_t{testing::kFormat1Snapshots});
  for (std::uint64_t i = 0; i < all.size(); ++i) {
    const auto expected = testing::format_1_metadata(i + 1);
    EXPECT_EQ(all[i].state, SnapshotState::committed);
    EXPECT_EQ(all[i].metadata.step, expected.step);
    EXPECT_EQ(all[i].metadata.loss_scale, expected.loss_scale);
    EXPECT_EQ(all[i].metadata.user_json, expected.user_json);
    EXPECT_EQ(all[i].pinned, i == 1);
    expect_contents(*store, all[i].id, i + 1);
  }
  EXPECT_EQ(store->latest_good()->id, (SnapshotId{2, 1}));
  EXPECT_EQ(store->find(12, 3, Stage::unscaled)->id, (SnapshotId{1, 2}));
}

TEST_F(Format1Test, ItIsReadWithoutBeingWritten) {
  std::filesystem::permissions(dir_ / "store/rank-00000/index", std::filesystem::perms::owner_write,
                               std::filesystem::perm_options::remove);
  const archive::StoreView view(dir_ / "store");
  auto rank = view.open_rank(0);
  ASSERT_EQ(rank.list().size(), std::size_t{testing::kFormat1Snapshots});
  for (const auto& row : rank.list()) {
    EXPECT_TRUE(rank.verify_gradients(row.info.id).damage.empty());
    if (!row.info.state_id) continue;
    EXPECT_TRUE(rank.verify_state(*row.info.state_id).damage.empty());
  }
  std::filesystem::permissions(dir_ / "store/rank-00000/index", std::filesystem::perms::owner_write,
                               std::filesystem::perm_options::add);
}

TEST_F(Format1Test, ARunGoesOnInIt) {
  SnapshotId id;
  {
    const auto store = SnapshotStore::open(dir_ / "store");
    GradientStore gradients;
    testing::register_format_1(gradients);
    testing::append_format_1(gradients, 5);
    id = store->snapshot(gradients, testing::format_1_metadata(5), testing::format_1_state(5)).id();
    store->close();
  }
  EXPECT_EQ(id, (SnapshotId{3, 1}));
  const auto store = SnapshotStore::open(dir_ / "store");
  EXPECT_EQ(store->list().size(), std::size_t{testing::kFormat1Snapshots} + 1);
  expect_contents(*store, id, 5);
  expect_contents(*store, {1, 1}, 1);
}

}  // namespace
}  // namespace gradstore
