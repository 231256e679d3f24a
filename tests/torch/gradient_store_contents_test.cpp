#include "torch/gradient_store_contents.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "gradstore/error.h"

namespace gradstore {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Property;
using ::testing::Throws;

at::Tensor slice_of(std::int64_t numel) { return at::full({numel}, 1.0); }

// "5: 1[2 slices] 7[1 slices w]; 3:": groups, params, slices and names in the order of the store.
std::string sketch_of(const GradientStore& store) {
  std::ostringstream sketch;
  GradientStoreAccess::with_contents(store, [&](const GradientStoreView& view) {
    const char* separator = "";
    for (const StoredGroup& group : view.groups) {
      sketch << std::exchange(separator, "; ") << group.group_id << ":";
      for (const StoredParam& param : group.params) {
        sketch << " " << param.param_id << "[" << param.slices.size() << " slices";
        if (param.registered) sketch << " " << param.registered->registration.name;
        sketch << "]";
      }
    }
  });
  return sketch.str();
}

std::vector<std::string> names_without_slices(const GradientStore& store) {
  std::vector<std::string> names;
  GradientStoreAccess::with_contents(store, [&](const GradientStoreView& view) {
    for (const auto& param : view.without_slices) names.push_back(param->registration.name);
  });
  return names;
}

std::vector<StoredGroup> copy_of_groups(const GradientStore& store) {
  std::vector<StoredGroup> groups;
  GradientStoreAccess::with_contents(store,
                                     [&](const GradientStoreView& view) { groups = view.groups; });
  return groups;
}

TEST(WithContentsTest, ShowsGroupsParamsAndSlicesInTheirOrder) {
  GradientStore store;
  store.register_param(7, "w", 5, at::zeros({4}));
  store.append_gradients_by_param_id(slice_of(1), 5, 9);
  store.append_gradients_by_param_id(slice_of(4), 5, 7);
  store.append_gradients_by_param_id(slice_of(1), 3, 1);
  store.append_gradients_by_param_id(slice_of(1), 5, 9);
  store.reset_grads_by_group_id(3);
  EXPECT_EQ(sketch_of(store), "5: 9[2 slices] 7[1 slices w]; 3:");
}

TEST(WithContentsTest, ShowsTheTensorsThemselvesWithTheirRanges) {
  GradientStore store;
  const auto grad = slice_of(4);
  store.append_gradients_by_param_id(grad, 0, 1, {8, 11, 1});
  const StoredSlice slice = copy_of_groups(store).at(0).params.at(0).slices.at(0);
  EXPECT_TRUE(slice.tensor.is_same(grad));
  EXPECT_EQ(slice.range, (SliceRange{8, 11, 1}));
}

TEST(WithContentsTest, ShowsRegistrationsInTheirOrderWithTheirContent) {
  GradientStore store;
  store.register_param(2, "second", 4, at::zeros({2, 3}).to(at::kBFloat16));
  store.register_param(1, "first", 0, at::zeros({}));
  GradientStoreAccess::with_contents(store, [](const GradientStoreView& view) {
    ASSERT_EQ(view.registered.size(), 2u);
    const RegisteredParam& second = *view.registered[0];
    EXPECT_EQ(second.param_id, 2);
    EXPECT_EQ(second.position, 0u);
    EXPECT_EQ(second.numel, 6);
    EXPECT_EQ(second.registration.name, "second");
    EXPECT_EQ(second.registration.group_id, 4);
    EXPECT_THAT(second.registration.shape, ElementsAre(2, 3));
    EXPECT_EQ(second.registration.dtype, c10::ScalarType::BFloat16);
    EXPECT_EQ(second.registration.device, c10::Device(c10::DeviceType::CPU));
    EXPECT_EQ(view.registered[1]->registration.name, "first");
    EXPECT_EQ(view.registered[1]->numel, 1);
  });
}

TEST(WithContentsTest, ListsRegisteredParamsThatHoldNoSlice) {
  GradientStore store;
  for (const auto& [id, name] : {std::pair{3, "c"}, std::pair{1, "a"}, std::pair{2, "b"}}) {
    store.register_param(id, name, 0, at::zeros({4}));
  }
  EXPECT_THAT(names_without_slices(store), ElementsAre("c", "a", "b"));
  store.append_gradients_by_param_id(slice_of(4), 0, 1);
  EXPECT_THAT(names_without_slices(store), ElementsAre("c", "b"));
  store.append_gradients_by_param_id(slice_of(4), 8, 2);  // In another group than registered.
  EXPECT_THAT(names_without_slices(store), ElementsAre("c"));
  store.reset_grads_by_group_id(0);
  EXPECT_THAT(names_without_slices(store), ElementsAre("c", "a"));
}

TEST(WithContentsTest, ParamRegisteredAfterItsFirstSliceIsKnownInEveryGroup) {
  GradientStore store;
  store.append_gradients_by_param_id(slice_of(4), 0, 1);
  store.append_gradients_by_param_id(slice_of(4), 1, 1);
  store.append_gradients_by_param_id(slice_of(4), 1, 2);
  store.register_param(1, "late", 0, at::zeros({4}));
  EXPECT_EQ(sketch_of(store), "0: 1[1 slices late]; 1: 1[1 slices late] 2[1 slices]");
  EXPECT_THAT(names_without_slices(store), IsEmpty());
}

TEST(WithContentsTest, ExceptionOfTheCallbackPassesAndUnlocks) {
  GradientStore store;
  EXPECT_THROW(GradientStoreAccess::with_contents(
                   store, [](const GradientStoreView&) { throw std::out_of_range("mine"); }),
               std::out_of_range);
  store.append_gradients_by_param_id(slice_of(1), 0, 1);
  EXPECT_EQ(sketch_of(store), "0: 1[1 slices]");
}

class ReplaceContentsTest : public ::testing::Test {
 protected:
  ReplaceContentsTest() {
    store_.register_param(7, "w", 5, at::zeros({4}));
    store_.append_gradients_by_param_id(before_, 1, 7);
  }
  void replace(std::vector<StoredGroup> groups) {
    GradientStoreAccess::replace_contents(store_, std::move(groups));
  }

  const at::Tensor before_ = slice_of(4);
  GradientStore store_;
};

TEST_F(ReplaceContentsTest, InstallsWhatIsGivenInItsOrderAndNothingElseRemains) {
  const auto a = slice_of(2), b = slice_of(2), c = slice_of(3);
  replace({{9, {}},
           {5, {{8, {{c, {0, 3, 0}}}, {}}, {7, {{a, {0, 2, 0}}, {b, {2, 4, 0}}}, {}}}},
           {0, {}}});
  EXPECT_EQ(sketch_of(store_), "9:; 5: 8[1 slices] 7[2 slices w]; 0:");
  const auto slices = store_.get_partitioned_gradients_by_param_id(5, 7);
  EXPECT_TRUE(slices.at(0).is_same(a));
  EXPECT_TRUE(slices.at(1).is_same(b));
  EXPECT_EQ(copy_of_groups(store_).at(1).params.at(1).slices.at(1).range, (SliceRange{2, 4, 0}));
}

TEST_F(ReplaceContentsTest, NewTensorsResolveAndOldOnesDoNot) {
  const auto grad = slice_of(4);
  replace({{5, {{7, {{grad, {0, 4, 0}}}, {}}}}});
  EXPECT_EQ(store_.get_param_id_for_grad(grad), 7);
  EXPECT_EQ(store_.get_param_id_for_grad(before_), std::nullopt);
}

TEST_F(ReplaceContentsTest, OwnContentsCanBePutBack) {
  store_.append_gradients_by_param_id(slice_of(2), 0, 3, {10, 11, 1});
  store_.reset_grads_by_group_id(4);
  const auto contents = copy_of_groups(store_);
  const std::string sketch = sketch_of(store_);
  store_.reset_all_gradients();
  replace(contents);
  EXPECT_EQ(sketch_of(store_), sketch);
  EXPECT_EQ(store_.get_param_id_for_grad(before_), 7);
  EXPECT_EQ(copy_of_groups(store_).at(1).params.at(0).slices.at(0).range, (SliceRange{10, 11, 1}));
}

TEST_F(ReplaceContentsTest, ParamWithoutSlicesIsLeftOut) {
  replace({{5, {{7, {}, {}}, {8, {{slice_of(1), {0, 1, 0}}}, {}}}}});
  EXPECT_EQ(sketch_of(store_), "5: 8[1 slices]");
  EXPECT_EQ(store_.get_working_grad_by_param_id(7), std::nullopt);
}

TEST_F(ReplaceContentsTest, ClientAppendsAndAddsAfterwardsAsBefore) {
  replace({{5, {{7, {{slice_of(2), {0, 2, 0}}}, {}}}}});
  store_.append_gradients_by_param_id(slice_of(2), 5, 7);
  store_.add_gradients_by_param_id(slice_of(2), 1, 5, 7);
  EXPECT_EQ(copy_of_groups(store_).at(0).params.at(0).slices.at(1).range, (SliceRange{2, 4, 0}));
}

TEST_F(ReplaceContentsTest, BadContentsAreRefusedAndTheStoreIsAsBefore) {
  const StoredParam good{8, {{slice_of(1), {0, 1, 0}}}, {}};
  const auto expect_refused = [&](std::vector<StoredGroup> groups, const std::string& why) {
    EXPECT_THAT([&] { replace(groups); },
                Throws<Error>(AllOf(Property(&Error::code, ErrorCode::invalid_argument),
                                    Property(&Error::what, HasSubstr(why)))));
    EXPECT_EQ(sketch_of(store_), "1: 7[1 slices w]");
    EXPECT_EQ(store_.get_param_id_for_grad(before_), 7);
    EXPECT_EQ(store_.get_param_id_for_grad(good.slices[0].tensor), std::nullopt);
  };
  expect_refused({{5, {good}}, {5, {}}}, "group 5 was given twice");
  expect_refused({{5, {good, good}}}, "param 8 of group 5 was given twice");
  expect_refused({{5, {good, {7, {{at::Tensor(), {0, 0, 0}}}, {}}}}}, "undefined tensor");
  expect_refused({{5, {good, {7, {{slice_of(4), {1, 5, 0}}}, {}}}}}, "ends after");
  expect_refused({{5, {good, {7, {{slice_of(4), {0, 3, 0}}}, {}}}}}, "does not cover");
}

}  // namespace
}  // namespace gradstore
