// Names are any bytes, and what a param is called decides where its gradient goes.
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "gradstore/gradient_store.h"
#include "gradstore/snapshot_store.h"
#include "support/fails_with.h"
#include "support/temp_dir.h"

namespace gradstore {
namespace {

using ::testing::ElementsAre;
using testing::fails_with;

std::vector<std::string> odd_names() {
  const std::string long_name(65536, 'x');
  return {"",
          "/",
          ".",
          "..",
          "a/b",
          "a",
          "%2F",
          "%",
          std::string("\0", 1),
          std::string("a\0b", 3),
          "\xff\xfe",
          "\xc3",
          "\xed\xa0\x80",
          "\xf0\x9f\x94\xa5 grad",
          "tab\tnewline\n",
          "\x1b[2J",
          " ",
          "  ",
          long_name,
          long_name + "y",
          std::string(200, 'a') + "first",
          std::string(200, 'a') + "second",
          std::string(199, 'a') + "\xc3\xa4"};
}

class NamesTest : public ::testing::Test {
 protected:
  testing::TempDir dir_;
  std::unique_ptr<SnapshotStore> store_ = SnapshotStore::open(dir_ / "store");
};

TEST_F(NamesTest, AnyBytesNameParamsAndCompanionTensorsAcrossProcesses) {
  const auto names = odd_names();
  ASSERT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  GradientStore gradients;
  CompanionState state;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto id = static_cast<std::int64_t>(i);
    const auto grad = at::full({3}, static_cast<double>(i));
    gradients.register_param(id, names[i], id % 2, grad);
    gradients.append_gradients_by_param_id(grad, id % 2, id);
    state.tensors.emplace_back(names[i], at::full({2}, static_cast<double>(i)));
  }
  const auto id = store_->snapshot(gradients, {}, state).id();
  store_->close();

  store_ = SnapshotStore::open(dir_ / "store");
  ASSERT_TRUE(store_->latest_good());
  GradientStore target;  // Other ids, other order.
  for (std::size_t i = names.size(); i-- > 0;) {
    target.register_param(1000 - static_cast<std::int64_t>(i), names[i],
                          static_cast<std::int64_t>(i % 2), at::zeros({3}));
  }
  store_->restore(id, target);
  const auto restored = store_->read_state(id);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto grad = target.get_working_grad_by_param_id(1000 - static_cast<std::int64_t>(i));
    ASSERT_TRUE(grad) << i;
    EXPECT_EQ(grad->const_data_ptr<float>()[0], static_cast<float>(i));
    EXPECT_EQ(restored.at(names[i]).const_data_ptr<float>()[0], static_cast<float>(i));
    EXPECT_EQ(store_->read(id, names[i]).const_data_ptr<float>()[0], static_cast<float>(i));
  }
}

TEST_F(NamesTest, MessagesStayReadableWhateverTheName) {
  for (const auto& name : odd_names()) {
    try {
      store_->snapshot(GradientStore(), {}, {{{name, at::Tensor()}}, "{}"});
      ADD_FAILURE();
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_LT(message.size(), 1000u);
      for (const char c : message) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << message;
    }
  }
}

TEST_F(NamesTest, OneParamHasOneNameAndOneNameOneParam) {
  GradientStore gradients;
  gradients.register_param(1, "w", 0, at::zeros({2}));
  EXPECT_THAT([&] { gradients.register_param(1, "v", 0, at::zeros({2})); },
              fails_with(ErrorCode::already_exists, "\"w\""));
  EXPECT_THAT([&] { gradients.register_param(2, "w", 1, at::zeros({2})); },
              fails_with(ErrorCode::already_exists, "\"w\""));
  EXPECT_THAT(
      [&] {
        store_->snapshot(gradients, {}, {{{"a", at::zeros({1})}, {"a", at::zeros({1})}}, "{}"});
      },
      fails_with(ErrorCode::invalid_argument, "used twice"));
}

// As tied weights are: one tensor, two params.
TEST_F(NamesTest, ATensorMayHaveTwoNames) {
  GradientStore gradients;
  const auto grad = at::full({2}, 5.0);
  gradients.register_param(1, "embed", 0, grad);
  gradients.register_param(2, "head", 1, grad);
  gradients.append_gradients_by_param_id(grad, 0, 1);
  gradients.append_gradients_by_param_id(grad, 1, 2);
  const auto ticket = store_->snapshot(gradients, {});
  ticket.wait();
  gradients.reset_all_gradients();
  store_->restore(ticket.id(), gradients);
  const auto embed = *gradients.get_working_grad_by_param_id(1);
  embed.fill_(9);
  EXPECT_EQ(gradients.get_working_grad_by_param_id(2)->const_data_ptr<float>()[0], 9.0f);
}

TEST_F(NamesTest, AParamMayHaveGradientsInItsGroupAndOthers) {
  GradientStore gradients;
  gradients.register_param(1, "w", 0, at::zeros({2}));
  gradients.append_gradients_by_param_id(at::full({2}, 7.0), 4, 1);
  gradients.append_gradients_by_param_id(at::full({2}, 8.0), 0, 1);
  const auto ticket = store_->snapshot(gradients, {});
  ticket.wait();
  gradients.reset_all_gradients();
  store_->restore(ticket.id(), gradients);
  const auto first_of = [&](std::int64_t group) {
    return gradients.get_working_grads_by_group_id(group).at(0).const_data_ptr<float>()[0];
  };
  EXPECT_EQ(first_of(4), 7.0f);
  EXPECT_EQ(first_of(0), 8.0f);
}

}  // namespace
}  // namespace gradstore
