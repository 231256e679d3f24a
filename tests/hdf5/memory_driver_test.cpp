#include "hdf5/memory_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "support/fails_with.h"

namespace gradstore::hdf5 {
namespace {

using testing::fails_with;

// A file with a user block in memory, whose only dataset must have ten bytes.
class MemoryDriverTest : public ::testing::Test {
 protected:
  MemoryDriverTest() {
    archive::Placement placement;
    placement.metadata = {4096, 100'000};
    placement.slice_extents = {{200'000, 10}};
    placement.hdf5_end = 200'010;
    memory_ = std::make_shared<MemoryFile>(MemoryImage(placement, placement.slice_extents));

    H5PropertyList access(H5Pcreate(H5P_FILE_ACCESS), "access");
    use_memory_file(access.get(), driver_, memory_);
    H5PropertyList creation(H5Pcreate(H5P_FILE_CREATE), "creation");
    check(H5Pset_userblock(creation.get(), 4096), "user block");
    file_.emplace(H5Fcreate("x", H5F_ACC_TRUNC, creation.get(), access.get()), "create");
  }

  H5Dataset create_dataset(hsize_t bytes) {
    H5PropertyList creation(H5Pcreate(H5P_DATASET_CREATE), "creation");
    check(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), "early");
    check(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), "never");
    H5Space space(H5Screate_simple(1, &bytes, nullptr), "space");
    return {H5Dcreate2(file_->get(), "data", H5T_STD_U8LE, space.get(), H5P_DEFAULT, creation.get(),
                       H5P_DEFAULT),
            "Cannot create data"};
  }

  const H5SilenceErrors silence_;
  std::shared_ptr<MemoryFile> memory_;
  H5Driver driver_ = register_memory_driver();
  std::optional<H5File> file_;
};

TEST_F(MemoryDriverTest, DatasetLiesWhereTheImageSays) {
  EXPECT_EQ(H5Dget_offset(create_dataset(10).get()), 200'000u);
  file_->close("close");
  EXPECT_EQ(memory_->failure, nullptr);
  EXPECT_TRUE(memory_->image.all_raw_allocated());
}

TEST_F(MemoryDriverTest, FailureKeepsItsReasonAndTheFileCanBeClosed) {
  EXPECT_THAT([&] { create_dataset(11); },
              fails_with(ErrorCode::internal, "Cannot create data: H5D"));
  ASSERT_NE(memory_->failure, nullptr);
  EXPECT_THAT([&] { std::rethrow_exception(memory_->failure); },
              fails_with(ErrorCode::internal, "11 bytes of raw data, where extent 0 has 10"));
  file_->close("close");
}

TEST_F(MemoryDriverTest, WritingADatasetsElementsFails) {
  const auto dataset = create_dataset(10);
  const std::string elements = "0123456789";
  EXPECT_LT(H5Dwrite(dataset.get(), H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, elements.data()),
            0);
  EXPECT_THAT([&] { std::rethrow_exception(memory_->failure); },
              fails_with(ErrorCode::internal, "write 10 bytes at 200000"));
}

TEST_F(MemoryDriverTest, FileOutlivesItsMakersHandleOnTheMemory) {
  create_dataset(10);
  const std::weak_ptr<MemoryFile> memory = memory_;
  memory_.reset();
  EXPECT_FALSE(memory.expired());
  file_->close("close");
  EXPECT_TRUE(memory.expired());
}

TEST_F(MemoryDriverTest, FileWithAnOpenObjectRefusesToClose) {
  const auto dataset = create_dataset(10);
  EXPECT_THAT([&] { file_->close("Cannot close"); },
              fails_with(ErrorCode::internal, "Cannot close: H5Fclose"));
}

TEST(H5SilenceErrorsTest, NothingIsPrintedWhileItLivesAndTheSettingReturns) {
  ::testing::internal::CaptureStderr();
  {
    const H5SilenceErrors silence;
    H5Fclose(12345);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ::testing::internal::CaptureStderr();
  H5Fclose(12345);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("HDF5-DIAG"));
}

}  // namespace
}  // namespace gradstore::hdf5
