#include "archive/file_plan.h"

#include <algorithm>
#include <span>
#include <vector>

#include "index/fingerprints_record.h"
#include "index/layout_record.h"

namespace gradstore::archive {

namespace {

constexpr std::size_t kPlansKept = 8;  // a few layouts, each for gradients and for state

}  // namespace

FilePlanner::FilePlanner(std::unique_ptr<SkeletonBuilder> builder, FindMetadata find_metadata)
    : builder_(std::move(builder)), find_metadata_(std::move(find_metadata)) {}

std::shared_ptr<const FilePlan> FilePlanner::plan(Layout layout, std::uint64_t manifest_bytes) {
  auto record = index::encode(layout);
  const auto digest = digest_of(std::as_bytes(std::span(record)));
  const auto slot = manifest_slot(manifest_bytes);

  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find_if(recent_, [&](const auto& plan) {
    return plan->layout_digest == digest && plan->placement().manifest.length == slot;
  });
  if (known != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, known);
    return recent_.front();
  }

  auto plan = std::make_shared<FilePlan>();
  plan->layout = std::move(layout);
  plan->layout_record = std::move(record);
  plan->layout_digest = digest;
  PartSizes sizes;
  sizes.layout = plan->layout_record.size();
  sizes.fingerprints =
      index::encode_fingerprints(std::vector<kernels::SliceFingerprint>(plan->layout.slices.size()),
                                 plan->layout.slices)
          .size();
  sizes.manifest = slot;
  if (auto metadata = find_metadata_(plan->layout.kind, digest, slot)) {
    sizes.metadata = metadata->size();
    plan->skeleton = {std::move(*metadata), place(plan->layout, sizes)};
  } else {
    plan->skeleton = builder_->build(plan->layout, sizes);
    ++built_;
  }
  plan->metadata_digest = digest_of(plan->skeleton.metadata);
  recent_.push_front(std::move(plan));
  if (recent_.size() > kPlansKept) recent_.pop_back();
  return recent_.front();
}

std::uint64_t FilePlanner::skeletons_built() const {
  const std::lock_guard lock(mutex_);
  return built_;
}

}  // namespace gradstore::archive
