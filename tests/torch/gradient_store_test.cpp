#include "gradstore/gradient_store.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gradstore/error.h"
#include "torch/gradient_store_contents.h"

namespace gradstore {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Property;
using ::testing::SizeIs;
using ::testing::Throws;

constexpr std::int64_t kLargeId = 139'000'000'000'080;  // As Python's id() gives them.

// One type for all calls, or each lambda costs half a second of compiling.
using Call = std::function<void()>;

::testing::Matcher<Call> fails(ErrorCode code, const std::string& text = "",
                               const std::string& more = "") {
  return Throws<Error>(AllOf(Property(&Error::code, code),
                             Property(&Error::what, AllOf(HasSubstr(text), HasSubstr(more)))));
}

MATCHER_P(IsSameTensorAs, other, "is the same tensor object") { return arg.is_same(other); }

at::Tensor slice_of(std::int64_t numel, double value = 1) { return at::full({numel}, value); }

std::vector<SliceRange> ranges_of(const GradientStore& store, std::int64_t param_id) {
  std::vector<SliceRange> ranges;
  GradientStoreAccess::with_contents(store, [&](const GradientStoreView& view) {
    for (const auto& group : view.groups) {
      for (const auto& param : group.params) {
        if (param.param_id != param_id) continue;
        for (const auto& slice : param.slices) ranges.push_back(slice.range);
      }
    }
  });
  return ranges;
}

TEST(GradientStoreTest, OptionsAreToldBack) {
  const GradientStore store({.world_size = 4, .local_rank = 3, .partition_grad = true});
  EXPECT_EQ(store.world_size(), 4);
  EXPECT_EQ(store.local_rank(), 3);
  EXPECT_TRUE(store.partition_grad());
}

TEST(GradientStoreTest, WorkingIndexIsZeroWhenPartitionedElseTheLocalRank) {
  EXPECT_EQ(GradientStore({.world_size = 4, .local_rank = 3}).working_index(), 3);
  EXPECT_EQ(
      GradientStore({.world_size = 4, .local_rank = 3, .partition_grad = true}).working_index(), 0);
}

TEST(GradientStoreTest, RankOutsideTheWorldIsRefused) {
  for (const auto& [world_size, local_rank] :
       {std::pair{2, 2}, std::pair{2, -1}, std::pair{0, 0}, std::pair{-1, 0}}) {
    SCOPED_TRACE(local_rank);
    EXPECT_THAT(Call([&] { GradientStore({.world_size = world_size, .local_rank = local_rank}); }),
                fails(ErrorCode::invalid_argument, "local_rank is " + std::to_string(local_rank)));
  }
}

TEST(GradientStoreTest, AbsentGroupsAndParamsAreEmptyListsOrNothing) {
  GradientStore store;
  EXPECT_THAT(store.get_partitioned_gradients_by_param_id(0, kLargeId), IsEmpty());
  EXPECT_THAT(store.get_working_grads_by_group_id(0), IsEmpty());
  EXPECT_EQ(store.get_working_grad_by_param_id(kLargeId), std::nullopt);
  EXPECT_EQ(store.get_param_id_for_grad(slice_of(1)), std::nullopt);
  EXPECT_EQ(store.get_param_id_for_grad(at::Tensor()), std::nullopt);

  store.append_gradients_by_param_id(slice_of(1), 0, 1);
  EXPECT_THAT(store.get_partitioned_gradients_by_param_id(0, kLargeId), IsEmpty());
  EXPECT_THAT(store.get_partitioned_gradients_by_param_id(1, 1), IsEmpty());
}

TEST(GradientStoreTest, EveryGetterReturnsTheVeryTensorsThatWereAppendedInOrder) {
  GradientStore store({.world_size = 2, .local_rank = 1});
  const auto first = slice_of(3), second = slice_of(3);
  store.append_gradients_by_param_id(first, 5, kLargeId);
  store.append_gradients_by_param_id(second, 5, kLargeId);

  EXPECT_THAT(store.get_partitioned_gradients_by_param_id(5, kLargeId),
              ::testing::ElementsAre(IsSameTensorAs(first), IsSameTensorAs(second)));
  EXPECT_THAT(store.get_working_grads_by_group_id(5),
              ::testing::ElementsAre(IsSameTensorAs(second)));
  EXPECT_THAT(*store.get_working_grad_by_param_id(kLargeId), IsSameTensorAs(second));
}

TEST(GradientStoreTest, PartitionedStoreWorksOnSliceZeroOnEveryRank) {
  GradientStore store({.world_size = 2, .local_rank = 1, .partition_grad = true});
  const auto grad = slice_of(3);
  store.append_gradients_by_param_id(grad, 0, 1);
  EXPECT_THAT(*store.get_working_grad_by_param_id(1), IsSameTensorAs(grad));
}

TEST(GradientStoreTest, WhatAClientWritesIntoAStoredTensorIsInTheStore) {
  GradientStore store;
  store.append_gradients_by_param_id(slice_of(3, 1), 0, 1);
  store.get_working_grads_by_group_id(0)[0].mul_(0.5);
  EXPECT_TRUE(at::equal(*store.get_working_grad_by_param_id(1), slice_of(3, 0.5)));
}

TEST(GradientStoreTest, TensorWhoseDataIsReplacedLaterIsStillTheSame) {
  GradientStore store;
  const auto grad = at::empty({0});
  store.append_gradients_by_param_id(grad, 0, 1);
  grad.set_data(slice_of(4, 2));
  EXPECT_EQ(store.get_param_id_for_grad(grad), 1);
  EXPECT_TRUE(at::equal(*store.get_working_grad_by_param_id(1), slice_of(4, 2)));
}

TEST(GradientStoreTest, ReturnedListIsTheCallersOwn) {
  GradientStore store;
  store.append_gradients_by_param_id(slice_of(3), 0, 1);
  store.get_partitioned_gradients_by_param_id(0, 1).clear();
  EXPECT_THAT(store.get_partitioned_gradients_by_param_id(0, 1), SizeIs(1));
}

TEST(GradientStoreTest, ParamsKeepTheOrderOfTheirFirstSlice) {
  GradientStore store;
  std::vector<at::Tensor> grads;
  for (const std::int64_t param : {9, 2, 30, 1}) {
    grads.push_back(slice_of(1, static_cast<double>(param)));
    store.append_gradients_by_param_id(grads.back(), 0, param);
  }
  store.append_gradients_by_param_id(slice_of(1), 0, 2);  // A second slice moves nothing.

  const auto working = store.get_working_grads_by_group_id(0);
  ASSERT_THAT(working, SizeIs(4));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_THAT(working[i], IsSameTensorAs(grads[i]));
}

TEST(GradientStoreTest, ParamInTwoGroupsAnswersFromTheGroupThatCameFirst) {
  GradientStore store;
  const auto in_group_7 = slice_of(1), in_group_3 = slice_of(1);
  store.append_gradients_by_param_id(in_group_7, 7, 1);
  store.append_gradients_by_param_id(in_group_3, 3, 1);
  EXPECT_THAT(*store.get_working_grad_by_param_id(1), IsSameTensorAs(in_group_7));
}

TEST(GradientStoreTest, MissingWorkingSliceIsNotFoundNamingParamAndIndex) {
  GradientStore store({.world_size = 3, .local_rank = 2});
  store.register_param(1, "decoder/w", 0, at::zeros({9}));
  store.append_gradients_by_param_id(slice_of(3), 0, 1);
  store.append_gradients_by_param_id(slice_of(3), 0, 1);
  const auto missing = fails(ErrorCode::not_found, "\"decoder/w\" (id 1) has 2 slices",
                             "none yet at the working index 2");
  EXPECT_THAT(Call([&] { store.get_working_grad_by_param_id(1); }), missing);
  EXPECT_THAT(Call([&] { store.get_working_grads_by_group_id(0); }), missing);
}

TEST(GradientStoreTest, UndefinedTensorIsRefusedAndLeavesNoTrace) {
  GradientStore store;
  EXPECT_THAT(Call([&] { store.append_gradients_by_param_id(at::Tensor(), 4, 17); }),
              fails(ErrorCode::invalid_argument, "undefined tensor", "param 17 of group 4"));
  EXPECT_THAT(store.get_working_grads_by_group_id(4), IsEmpty());
}

TEST(GradientStoreTest, SlicesMayBeAppendedBeyondTheWorldSize) {
  GradientStore store({.world_size = 2, .local_rank = 0});
  for (int i = 0; i < 5; ++i) store.append_gradients_by_param_id(slice_of(1), 0, 1);
  EXPECT_THAT(store.get_partitioned_gradients_by_param_id(0, 1), SizeIs(5));
}

class AddTest : public ::testing::Test {
 protected:
  AddTest() {
    store_.register_param(1, "decoder/w", 0, at::zeros({6}));
    for (int i = 0; i < 2; ++i) {
      slices_.push_back(slice_of(3, 10 * i));
      store_.append_gradients_by_param_id(slices_.back(), 0, 1);
    }
  }
  void add(const at::Tensor& grad, std::int64_t index) {
    store_.add_gradients_by_param_id(grad, index, 0, 1);
  }

  GradientStore store_{{.world_size = 2, .local_rank = 0}};
  std::vector<at::Tensor> slices_;
};

TEST_F(AddTest, ChangesTheStoredTensorInPlaceAndNoOther) {
  add(at::arange(3).to(at::kFloat), 1);
  EXPECT_TRUE(at::equal(slices_[1], at::arange(3).to(at::kFloat).add(10)));
  EXPECT_TRUE(at::equal(slices_[0], slice_of(3, 0)));
  EXPECT_THAT(store_.get_partitioned_gradients_by_param_id(0, 1)[1], IsSameTensorAs(slices_[1]));
}

TEST_F(AddTest, NegativeIndexCountsFromTheEnd) {
  add(slice_of(3), -1);
  add(slice_of(3, 2), -2);
  EXPECT_TRUE(at::equal(slices_[1], slice_of(3, 11)));
  EXPECT_TRUE(at::equal(slices_[0], slice_of(3, 2)));
}

TEST_F(AddTest, GradientIsBroadcastToTheSlice) {
  add(slice_of(1, 4), 0);
  EXPECT_TRUE(at::equal(slices_[0], slice_of(3, 4)));
}

TEST_F(AddTest, BFloat16IsAddedIntoFloat32) {
  add(slice_of(3, 1.5).to(at::kBFloat16), 0);
  EXPECT_EQ(slices_[0].scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(slices_[0], slice_of(3, 1.5)));
}

TEST_F(AddTest, NothingIsRecordedForAutograd) {
  add(slice_of(3).set_requires_grad(true), 0);
  EXPECT_FALSE(slices_[0].requires_grad());

  slices_[1].set_requires_grad(true);  // A leaf, which autograd would refuse to change in place.
  add(slice_of(3), 1);
  EXPECT_TRUE(at::equal(slices_[1].detach(), slice_of(3, 11)));
  EXPECT_TRUE(slices_[1].is_leaf());
}

TEST_F(AddTest, UnknownGroupIsNotFound) {
  EXPECT_THAT(Call([&] { store_.add_gradients_by_param_id(slice_of(3), 0, 8, 1); }),
              fails(ErrorCode::not_found, "\"decoder/w\" (id 1) of group 8", "no such group"));
}

TEST_F(AddTest, UnknownParamIsNotFound) {
  EXPECT_THAT(Call([&] { store_.add_gradients_by_param_id(slice_of(3), 0, 0, 2); }),
              fails(ErrorCode::not_found, "param 2 of group 0", "it has no slices"));
}

TEST_F(AddTest, IndexOutsideTheListIsNotFoundNamingIndexAndCount) {
  for (const std::int64_t index :
       {std::int64_t{2}, std::int64_t{-3}, std::numeric_limits<std::int64_t>::min(),
        std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_THAT(Call([&] { add(slice_of(3), index); }),
                fails(ErrorCode::not_found, "\"decoder/w\"",
                      "no slice " + std::to_string(index) + ", it has 2 slices"));
  }
}

TEST_F(AddTest, ShapeMismatchIsInvalidNamingTheParamWithoutABacktrace) {
  EXPECT_THAT(Call([&] { add(slice_of(4), 0); }),
              fails(ErrorCode::invalid_argument, "slice 0 of param \"decoder/w\" (id 1) of group 0",
                    "must match the size"));
  EXPECT_THAT(Call([&] { add(at::ones({2, 3}), 0); }), fails(ErrorCode::invalid_argument));
  try {
    add(slice_of(4), 0);
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("Exception raised from")));
  }
  EXPECT_TRUE(at::equal(slices_[0], slice_of(3, 0)));
}

TEST_F(AddTest, DtypeThatCannotBeAddedIsInvalid) {
  store_.append_gradients_by_param_id(at::ones({3}, at::kLong), 0, 3);
  EXPECT_THAT(Call([&] { store_.add_gradients_by_param_id(slice_of(3), 0, 0, 3); }),
              fails(ErrorCode::invalid_argument, "param 3 of group 0"));
}

TEST_F(AddTest, UndefinedTensorIsInvalid) {
  EXPECT_THAT(Call([&] { add(at::Tensor(), 0); }),
              fails(ErrorCode::invalid_argument, "undefined tensor", "\"decoder/w\""));
}

TEST(ParamIdForGradTest, EverySliceResolvesToItsParam) {
  GradientStore store;
  const auto a = slice_of(1), b = slice_of(1), c = slice_of(1);
  store.append_gradients_by_param_id(a, 0, 1);
  store.append_gradients_by_param_id(b, 0, kLargeId);
  store.append_gradients_by_param_id(c, 1, 1);
  EXPECT_EQ(store.get_param_id_for_grad(a), 1);
  EXPECT_EQ(store.get_param_id_for_grad(b), kLargeId);
  EXPECT_EQ(store.get_param_id_for_grad(c), 1);
}

TEST(ParamIdForGradTest, EqualTensorOrViewOfTheSameMemoryDoesNotResolve) {
  GradientStore store;
  const auto grad = slice_of(3);
  store.append_gradients_by_param_id(grad, 0, 1);
  EXPECT_EQ(store.get_param_id_for_grad(grad.clone()), std::nullopt);
  EXPECT_EQ(store.get_param_id_for_grad(grad.view({3})), std::nullopt);
  EXPECT_EQ(store.get_param_id_for_grad(grad.detach()), std::nullopt);
}

TEST(ParamIdForGradTest, TensorUnderTwoParamsResolvesToTheLast) {
  GradientStore store;
  const auto grad = slice_of(1);
  store.append_gradients_by_param_id(grad, 0, 8);
  store.append_gradients_by_param_id(grad, 0, 3);
  EXPECT_EQ(store.get_param_id_for_grad(grad), 3);
  EXPECT_THAT(*store.get_working_grad_by_param_id(8), IsSameTensorAs(grad));
}

TEST(ParamIdForGradTest, AddLeavesTheIdAndGivesNoneToWhatIsAdded) {
  GradientStore store;
  const auto grad = slice_of(1), more = slice_of(1);
  store.append_gradients_by_param_id(grad, 0, 8);
  store.add_gradients_by_param_id(more, 0, 0, 8);
  EXPECT_EQ(store.get_param_id_for_grad(grad), 8);
  EXPECT_EQ(store.get_param_id_for_grad(more), std::nullopt);
}

// With the tensor's address alone as key this finds thousands of wrong answers.
TEST(ParamIdForGradTest, IdOfADeadTensorNeverAnswersForANewOneAtItsAddress) {
  GradientStore store;
  std::set<const void*> addresses_of_the_dead;
  int num_reused = 0;
  for (int round = 0; round < 5000; ++round) {
    auto grad = slice_of(2);
    addresses_of_the_dead.insert(grad.unsafeGetTensorImpl());
    store.append_gradients_by_param_id(std::move(grad), 0, 7);
    store.reset_grads_by_group_id(0);

    std::vector<at::Tensor> unrelated;
    for (int i = 0; i < 4; ++i) {
      unrelated.push_back(slice_of(2));
      num_reused += addresses_of_the_dead.contains(unrelated.back().unsafeGetTensorImpl());
      ASSERT_EQ(store.get_param_id_for_grad(unrelated.back()), std::nullopt) << "round " << round;
    }
  }
#if !defined(__SANITIZE_ADDRESS__)  // Which hands out no address twice.
  EXPECT_GT(num_reused, 0) << "no address was reused, so nothing was shown";
#endif
}

TEST(ParamIdForGradTest, DeadTensorsAreForgottenAndLiveOnesAreNot) {
  GradientStore store;
  std::vector<at::Tensor> alive;
  for (int round = 0; round < 20'000; ++round) {
    auto grad = slice_of(1);
    if (round % 10 == 0) alive.push_back(grad);
    store.append_gradients_by_param_id(std::move(grad), 0, round);
    store.reset_grads_by_group_id(0);
  }
  EXPECT_LE(GradientStoreAccess::num_known_tensors(store), 2 * alive.size() + 1024);
  for (std::size_t i = 0; i < alive.size(); ++i) {
    ASSERT_EQ(store.get_param_id_for_grad(alive[i]), static_cast<std::int64_t>(10 * i));
  }
}

TEST(ResetTest, GroupResetDropsItsSlicesOnly) {
  GradientStore store;
  store.append_gradients_by_param_id(slice_of(1), 0, 1);
  const auto other = slice_of(1);
  store.append_gradients_by_param_id(other, 1, 2);
  store.reset_grads_by_group_id(0);
  EXPECT_THAT(store.get_working_grads_by_group_id(0), IsEmpty());
  EXPECT_THAT(store.get_partitioned_gradients_by_param_id(0, 1), IsEmpty());
  EXPECT_EQ(store.get_working_grad_by_param_id(1), std::nullopt);
  EXPECT_THAT(*store.get_working_grad_by_param_id(2), IsSameTensorAs(other));
}

TEST(ResetTest, GroupResetReleasesTheMemoryOfItsSlices) {
  GradientStore store;
  auto grad = slice_of(1);
  const c10::weak_intrusive_ptr<c10::StorageImpl> storage(
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(grad.storage().unsafeGetStorageImpl()));
  store.append_gradients_by_param_id(std::move(grad), 0, 1);
  EXPECT_FALSE(storage.expired());
  store.reset_grads_by_group_id(0);
  EXPECT_TRUE(storage.expired());
}

TEST(ResetTest, LiveTensorStillResolvesAfterAGroupReset) {
  GradientStore store;
  const auto grad = slice_of(1);
  store.append_gradients_by_param_id(grad, 0, 1);
  store.reset_grads_by_group_id(0);
  EXPECT_EQ(store.get_param_id_for_grad(grad), 1);
}

TEST(ResetTest, GroupKeepsItsPlaceThroughAGroupReset) {
  GradientStore store;
  store.append_gradients_by_param_id(slice_of(1), 5, 9);
  store.append_gradients_by_param_id(slice_of(1), 2, 1);
  store.reset_grads_by_group_id(5);
  const auto in_group_5 = slice_of(1);
  store.append_gradients_by_param_id(in_group_5, 5, 1);
  EXPECT_THAT(*store.get_working_grad_by_param_id(1), IsSameTensorAs(in_group_5));
}

TEST(ResetTest, ResetOfAnAbsentGroupTakesItsPlaceInTheOrder) {
  GradientStore store;
  store.reset_grads_by_group_id(5);
  store.append_gradients_by_param_id(slice_of(1), 2, 1);
  const auto in_group_5 = slice_of(1);
  store.append_gradients_by_param_id(in_group_5, 5, 1);
  EXPECT_THAT(*store.get_working_grad_by_param_id(1), IsSameTensorAs(in_group_5));
}

TEST(ResetTest, FullResetDropsSlicesOrderAndIds) {
  GradientStore store;
  const auto grad = slice_of(1);
  store.append_gradients_by_param_id(grad, 5, 1);
  store.reset_all_gradients();
  EXPECT_THAT(store.get_working_grads_by_group_id(5), IsEmpty());
  EXPECT_EQ(store.get_working_grad_by_param_id(1), std::nullopt);
  EXPECT_EQ(store.get_param_id_for_grad(grad), std::nullopt);

  const auto in_group_2 = slice_of(1);
  store.append_gradients_by_param_id(in_group_2, 2, 1);
  store.append_gradients_by_param_id(grad, 5, 1);
  EXPECT_THAT(*store.get_working_grad_by_param_id(1), IsSameTensorAs(in_group_2));
}

TEST(ResetTest, RegistrationsOutliveAFullReset) {
  GradientStore store;
  store.register_param(1, "w", 0, at::zeros({4}));
  store.reset_all_gradients();
  EXPECT_THAT(Call([&] { store.register_param(1, "v", 0, at::zeros({4})); }),
              fails(ErrorCode::already_exists));
}

TEST(RegisterParamTest, SameIdTwiceIsRefusedNamingBoth) {
  GradientStore store;
  store.register_param(1, "first", 0, at::zeros({4}));
  EXPECT_THAT(Call([&] { store.register_param(1, "second", 0, at::zeros({4})); }),
              fails(ErrorCode::already_exists, "\"second\"", "\"first\" (id 1)"));
  store.register_param(2, "second", 0, at::zeros({4}));  // The refused name is still free.
}

TEST(RegisterParamTest, SameNameTwiceIsRefusedNamingBoth) {
  GradientStore store;
  store.register_param(1, "w", 0, at::zeros({4}));
  EXPECT_THAT(Call([&] { store.register_param(22, "w", 1, at::zeros({4})); }),
              fails(ErrorCode::already_exists, "id 22", "\"w\" (id 1)"));
  store.register_param(22, "v", 1, at::zeros({4}));  // The refused id is still free.
}

TEST(RegisterParamTest, NamesMayHoldAnyBytes) {
  GradientStore store;
  const std::string with_zero("a\0b", 3);
  store.register_param(1, with_zero, 0, at::zeros({4}));
  store.register_param(2, "a", 0, at::zeros({4}));
  store.register_param(3, "", 0, at::zeros({4}));
  store.register_param(4, "\xff\n", 0, at::zeros({4}));
  EXPECT_THAT(Call([&] { store.register_param(5, with_zero, 0, at::zeros({4})); }),
              fails(ErrorCode::already_exists, "a\\x00b"));
}

TEST(RegisterParamTest, ShapesThatNoTensorHasAreRefused) {
  GradientStore store;
  EXPECT_THAT(Call([&] {
                store.register_param(1, {.name = "w", .shape = {2, -1}});
              }),
              fails(ErrorCode::invalid_argument, "\"w\"", "-1"));
  const std::int64_t half = std::int64_t{1} << 32;
  EXPECT_THAT(Call([&] {
                store.register_param(1, {.name = "w", .shape = {half, half}});
              }),
              fails(ErrorCode::invalid_argument, "2^63 - 1"));
  EXPECT_THAT(Call([&] { store.register_param(1, "w", 0, at::Tensor()); }),
              fails(ErrorCode::invalid_argument, "undefined"));
  store.register_param(1, {.name = "w", .shape = {half, half, 0}});
}

class DefaultRangeTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kParam = 1;
  static std::vector<SliceRange> after_appending(GradientStore& store,
                                                 const std::vector<std::int64_t>& numels) {
    for (const std::int64_t numel : numels) {
      store.append_gradients_by_param_id(slice_of(numel), 0, kParam);
    }
    return ranges_of(store, kParam);
  }
};

TEST_F(DefaultRangeTest, SlicesOfAllRanksFollowEachOtherAndTheLastIsPadded) {
  GradientStore store({.world_size = 2, .local_rank = 0});
  store.register_param(kParam, "w", 0, at::zeros({37, 15}));
  EXPECT_EQ(after_appending(store, {278, 278}),
            (std::vector<SliceRange>{{0, 278, 0}, {278, 555, 1}}));
}

TEST_F(DefaultRangeTest, PartitionedSliceIsThatOfTheLocalRank) {
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    GradientStore store({.world_size = 4, .local_rank = rank, .partition_grad = true});
    store.register_param(kParam, "w", 0, at::zeros({10}));
    const std::int64_t end = std::min<std::int64_t>(10, 3 * rank + 3);
    EXPECT_EQ(after_appending(store, {3}),
              (std::vector<SliceRange>{{3 * rank, end, 3 * rank + 3 - end}}));
  }
}

TEST_F(DefaultRangeTest, ShareThatLiesBehindTheEndIsAllPadding) {
  GradientStore store({.world_size = 4, .local_rank = 3, .partition_grad = true});
  store.register_param(kParam, "w", 0, at::zeros({5}));
  EXPECT_EQ(after_appending(store, {2}), (std::vector<SliceRange>{{5, 5, 2}}));
}

TEST_F(DefaultRangeTest, SliceAsLargeAsTheParamIsAllOfItAtAnyPosition) {
  GradientStore store;
  store.register_param(kParam, "w", 0, at::zeros({2, 3}));
  EXPECT_EQ(after_appending(store, {6, 6}), (std::vector<SliceRange>{{0, 6, 0}, {0, 6, 0}}));
}

TEST_F(DefaultRangeTest, ScalarIsOneElementAndAnEmptyParamNone) {
  GradientStore store;
  store.register_param(kParam, "scalar", 0, at::zeros({}));
  store.register_param(2, "empty", 0, at::zeros({0, 3}));
  store.append_gradients_by_param_id(at::ones({}), 0, kParam);
  store.append_gradients_by_param_id(at::ones({0, 3}), 0, 2);
  store.append_gradients_by_param_id(slice_of(2), 0, 2);
  EXPECT_EQ(ranges_of(store, kParam), (std::vector<SliceRange>{{0, 1, 0}}));
  EXPECT_EQ(ranges_of(store, 2), (std::vector<SliceRange>{{0, 0, 0}, {0, 0, 2}}));
}

TEST_F(DefaultRangeTest, EmptySliceOfAParamHoldsNothingOfIt) {
  GradientStore store;
  store.register_param(kParam, "w", 0, at::zeros({5}));
  EXPECT_EQ(after_appending(store, {0}), (std::vector<SliceRange>{{0, 0, 0}}));
}

TEST_F(DefaultRangeTest, SliceOfAnUnregisteredParamStartsAtZero) {
  GradientStore store({.world_size = 2, .local_rank = 1});
  EXPECT_EQ(after_appending(store, {3, 4}), (std::vector<SliceRange>{{0, 3, 0}, {0, 4, 0}}));
}

TEST_F(DefaultRangeTest, HugeParamDoesNotOverflow) {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  GradientStore store({.world_size = huge, .local_rank = huge - 1, .partition_grad = true});
  store.register_param(kParam, {.name = "w", .shape = {huge}});
  EXPECT_EQ(after_appending(store, {3}), (std::vector<SliceRange>{{huge, huge, 3}}));
}

TEST(ExplicitRangeTest, IsKeptAsGiven) {
  GradientStore store;
  store.register_param(1, "w", 0, at::zeros({10}));
  store.append_gradients_by_param_id(slice_of(4), 0, 1, {7, 10, 1});
  store.append_gradients_by_param_id(slice_of(2), 0, 99, {100, 101, 1});  // Not registered.
  EXPECT_EQ(ranges_of(store, 1), (std::vector<SliceRange>{{7, 10, 1}}));
  EXPECT_EQ(ranges_of(store, 99), (std::vector<SliceRange>{{100, 101, 1}}));
}

TEST(ExplicitRangeTest, RangeThatDoesNotFitIsRefusedAndLeavesNoTrace) {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  GradientStore store;
  store.register_param(1, "w", 0, at::zeros({10}));
  for (const SliceRange range :
       {SliceRange{-1, 3, 0}, SliceRange{3, 2, 5}, SliceRange{0, 5, -1}, SliceRange{0, 4, 1},
        SliceRange{0, 3, 0}, SliceRange{7, 11, 0}, SliceRange{0, huge, huge}}) {
    SCOPED_TRACE(range.begin);
    SCOPED_TRACE(range.end);
    EXPECT_THAT(Call([&] { store.append_gradients_by_param_id(slice_of(4), 0, 1, range); }),
                fails(ErrorCode::invalid_argument, "\"w\"", std::to_string(range.end)));
  }
  EXPECT_THAT(store.get_partitioned_gradients_by_param_id(0, 1), IsEmpty());
}

}  // namespace
}  // namespace gradstore
