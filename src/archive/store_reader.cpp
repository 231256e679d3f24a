#include "gradstore/store_reader.h"

#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "archive/snapshot_rows.h"
#include "archive/store_view.h"

namespace gradstore {

namespace {

GradientPresence to_public(Presence presence) {
  switch (presence) {
    case Presence::captured: return GradientPresence::captured;
    case Presence::absent: return GradientPresence::absent;
    case Presence::not_captured: return GradientPresence::not_captured;
  }
  throw Error(ErrorCode::internal, "A presence outside the enum was decoded");
}

SliceStatistics to_public(const kernels::Statistics& s) {
  return {s.count,  s.nan, s.positive_infinity, s.negative_infinity, s.zero, s.min, s.max,
          s.absmax, s.sum, s.sum_of_squares};
}

// A file with its params and slices by name.
class OpenFile {
 public:
  explicit OpenFile(archive::FileReader file) : file_(std::move(file)) {
    const auto& layout = file_.layout();
    slices_.resize(layout.params.size());
    for (std::size_t number = 0; number < layout.slices.size(); ++number) {
      slices_[layout.slices[number].param].push_back(number);
    }
    for (std::size_t param = 0; param < layout.params.size(); ++param) {
      params_.emplace(layout.params[param].name, param);
    }
  }

  const archive::FileReader& file() const { return file_; }

  // Numbers of the param's slices in the file.
  const std::vector<std::size_t>& slices(std::size_t param) const { return slices_[param]; }

  std::uint64_t num_bytes(std::size_t number) const {
    return file_.placement().slice_extents[number].length;
  }

  std::string digest(std::size_t number) const {
    return to_string(file_.fingerprints()[number].digest);
  }

  std::vector<std::byte> read(const std::string& name, std::uint32_t position) const {
    const auto param = params_.find(name);
    if (param == params_.end()) {
      throw Error(ErrorCode::not_found, file_.path().string() + " has no " + printable(name));
    }
    const auto& numbers = slices_[param->second];
    if (position >= numbers.size()) {
      throw Error(ErrorCode::not_found, file_.path().string() + ": " + printable(name) + " has " +
                                            std::to_string(numbers.size()) + " slices, no number " +
                                            std::to_string(position));
    }
    std::vector<std::byte> bytes(num_bytes(numbers[position]));
    file_.read_slice(numbers[position], bytes);
    return bytes;
  }

 private:
  archive::FileReader file_;
  std::vector<std::vector<std::size_t>> slices_;  // By param.
  std::unordered_map<std::string, std::size_t> params_;
};

std::vector<StoredParam> describe_params(const OpenFile& open) {
  const auto& layout = open.file().layout();
  std::vector<StoredParam> params;
  params.reserve(layout.params.size());
  for (std::size_t i = 0; i < layout.params.size(); ++i) {
    const auto& spec = layout.params[i];
    auto& param = params.emplace_back(StoredParam{spec.name,
                                                  layout.groups[spec.group].id,
                                                  spec.dtype,
                                                  spec.shape,
                                                  to_public(spec.presence),
                                                  {}});
    for (const auto number : open.slices(i)) {
      const auto& slice = layout.slices[number];
      param.slices.push_back({slice.dtype, slice.shape, slice.begin, slice.end, slice.padding,
                              open.num_bytes(number), open.digest(number),
                              to_public(open.file().fingerprints()[number].statistics)});
    }
  }
  return params;
}

std::vector<StoredTensor> describe_tensors(const OpenFile& open) {
  const auto& layout = open.file().layout();
  std::vector<StoredTensor> tensors;
  tensors.reserve(layout.params.size());
  for (std::size_t i = 0; i < layout.params.size(); ++i) {
    for (const auto number : open.slices(i)) {
      const auto& slice = layout.slices[number];
      tensors.push_back({layout.params[i].name, slice.dtype, slice.shape, open.num_bytes(number),
                         open.digest(number)});
    }
  }
  return tensors;
}

}  // namespace

std::string_view name_of(GradientPresence presence) noexcept {
  switch (presence) {
    case GradientPresence::captured: return "captured";
    case GradientPresence::absent: return "absent";
    case GradientPresence::not_captured: return "not_captured";
  }
  return "invalid";
}

class SnapshotReader::Impl {
 public:
  Impl(const archive::RankView& rank, SnapshotInfo snapshot)
      : info(std::move(snapshot)),
        gradients(rank.open_gradients(info.id)),
        params(describe_params(gradients)) {
    if (!info.state_id) return;
    try {
      state.emplace(rank.open_state(*info.state_id));
      state_json = state->file().manifest().metadata.user_json;
      state_tensors = describe_tensors(*state);
    } catch (const Error&) {
      // Gradients can be read all the same; whoever asks for the state is told.
      state_failure = std::current_exception();
    }
  }

  void require_readable_state() const {
    if (state_failure) std::rethrow_exception(state_failure);
  }

  SnapshotInfo info;
  OpenFile gradients;
  std::vector<StoredParam> params;
  std::optional<OpenFile> state;
  std::exception_ptr state_failure;
  std::string state_json;
  std::vector<StoredTensor> state_tensors;
};

SnapshotReader::SnapshotReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SnapshotReader::SnapshotReader(SnapshotReader&&) noexcept = default;
SnapshotReader& SnapshotReader::operator=(SnapshotReader&&) noexcept = default;
SnapshotReader::~SnapshotReader() = default;

const SnapshotInfo& SnapshotReader::info() const noexcept { return impl_->info; }

const std::vector<StoredParam>& SnapshotReader::params() const noexcept { return impl_->params; }

std::vector<std::byte> SnapshotReader::read(const std::string& param, std::uint32_t slice) const {
  return impl_->gradients.read(param, slice);
}

bool SnapshotReader::has_state() const noexcept { return impl_->info.state_id.has_value(); }

const std::string& SnapshotReader::state_json() const {
  impl_->require_readable_state();
  return impl_->state_json;
}

const std::vector<StoredTensor>& SnapshotReader::state_tensors() const {
  impl_->require_readable_state();
  return impl_->state_tensors;
}

std::vector<std::byte> SnapshotReader::read_state(const std::string& tensor) const {
  impl_->require_readable_state();
  if (!impl_->state) {
    throw Error(ErrorCode::not_found,
                "Snapshot " + to_string(impl_->info.id) + " has no companion state");
  }
  return impl_->state->read(tensor, 0);
}

class StoreReader::Impl {
 public:
  explicit Impl(const std::filesystem::path& directory)
      : view(directory), uuid(archive::to_text(view.info().uuid)) {}

  // Null as long as the rank's writer has only just begun.
  archive::RankView* open_rank(std::uint32_t number) {
    const std::lock_guard guard(mutex_);
    auto& rank = ranks_[number];
    if (rank) return rank.get();
    const auto paths = archive::rank_paths(view.directory(), number);
    if (!files_->status(paths.root)) {
      throw Error(ErrorCode::not_found,
                  view.directory().string() + " has no rank " + std::to_string(number));
    }
    // A writer makes the index before its first file: once there are files, a second look decides.
    for (const bool files_seen : {false, true}) {
      try {
        rank = std::make_unique<archive::RankView>(view.open_rank(number));
        return rank.get();
      } catch (const Error& error) {
        if (error.code() != ErrorCode::not_found) throw;
        if (files_seen) {
          throw Error(ErrorCode::corrupt,
                      paths.index().string() +
                          ": the index is missing, but there are snapshot files in " +
                          paths.snapshots().string());
        }
        if (!holds_files(paths.snapshots())) return nullptr;
      }
    }
    return nullptr;
  }

  // The snapshot's row as the index has it now; nothing unless its files must be there.
  std::optional<index::SnapshotRow> row_with_data(std::uint32_t rank, SnapshotId id) {
    auto* const opened = open_rank(rank);
    if (opened == nullptr) return std::nullopt;
    opened->index().catch_up();
    auto row = opened->index().find(id);
    if (!row || row->info.state != SnapshotState::committed) return std::nullopt;
    return row;
  }

  SnapshotInfo marked(index::SnapshotRow row, const archive::RankView& rank) {
    archive::mark_if_damaged(row.info, rank.paths(), *files_);
    return std::move(row.info);
  }

  [[noreturn]] void refuse_missing(std::uint32_t rank, SnapshotId id) const {
    throw Error(ErrorCode::not_found,
                "There is no snapshot " + to_string(id) + " with data in " +
                    archive::rank_paths(view.directory(), rank).root.string());
  }

  // Nothing when its data are gone, also when they went while we looked.
  std::optional<std::vector<StoredDamage>> verify(std::uint32_t number, SnapshotId id,
                                                  std::set<SnapshotId>& checked_states) {
    const auto row = row_with_data(number, id);
    if (!row) return std::nullopt;
    const auto& rank = *open_rank(number);
    std::vector<StoredDamage> damage;
    const auto add = [&](const archive::Verification& verification) {
      for (const auto& found : verification.damage) {
        damage.push_back({number, id, found.file, found.region, found.param, found.slice,
                          found.offset, found.what});
      }
    };
    add(rank.verify_gradients(id));
    if (const auto state = row->info.state_id; state && checked_states.insert(*state).second) {
      add(rank.verify_state(*state));
    }
    // Beside a live writer a file may be removed while we read it: the row tells.
    if (!damage.empty() && !row_with_data(number, id)) return std::nullopt;
    return damage;
  }

  archive::StoreView view;
  std::string uuid;

 private:
  bool holds_files(const io::Path& folder) const {
    return files_->status(folder) && !files_->list(folder).empty();
  }

  std::shared_ptr<io::FileSystem> files_ = io::posix_file_system();
  std::mutex mutex_;
  std::map<std::uint32_t, std::unique_ptr<archive::RankView>> ranks_;  // Opened once asked for.
};

StoreReader::StoreReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StoreReader::StoreReader(StoreReader&&) noexcept = default;
StoreReader& StoreReader::operator=(StoreReader&&) noexcept = default;
StoreReader::~StoreReader() = default;

StoreReader StoreReader::open(const std::filesystem::path& directory) {
  return StoreReader(std::make_unique<Impl>(directory));
}

const std::filesystem::path& StoreReader::directory() const noexcept {
  return impl_->view.directory();
}

const std::string& StoreReader::run_name() const noexcept { return impl_->view.info().run_name; }

const std::string& StoreReader::uuid() const noexcept { return impl_->uuid; }

std::vector<std::uint32_t> StoreReader::ranks() const { return impl_->view.ranks(); }

std::vector<SnapshotInfo> StoreReader::list(std::uint32_t rank) const {
  std::vector<SnapshotInfo> all;
  auto* const opened = impl_->open_rank(rank);
  if (opened == nullptr) return all;
  for (auto& row : opened->list()) {
    if (row.info.state != SnapshotState::deleting) all.push_back(std::move(row.info));
  }
  return all;
}

std::optional<SnapshotInfo> StoreReader::latest(std::uint32_t rank) const {
  auto* const opened = impl_->open_rank(rank);
  if (opened == nullptr) return std::nullopt;
  opened->index().catch_up();
  auto row = opened->index().latest();
  return row ? std::optional(impl_->marked(std::move(*row), *opened)) : std::nullopt;
}

std::optional<SnapshotInfo> StoreReader::find(std::uint32_t rank, std::uint64_t step,
                                              std::uint32_t micro_step, Stage stage) const {
  auto* const opened = impl_->open_rank(rank);
  if (opened == nullptr) return std::nullopt;
  opened->index().catch_up();
  const auto ids = opened->index().find(step, micro_step, stage);
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
    auto row = opened->index().find(*id);
    if (row && row->info.state != SnapshotState::deleting) {
      return impl_->marked(std::move(*row), *opened);
    }
  }
  return std::nullopt;
}

SnapshotReader StoreReader::snapshot(std::uint32_t rank, SnapshotId id) const {
  auto row = impl_->row_with_data(rank, id);
  if (!row) impl_->refuse_missing(rank, id);
  const auto& opened = *impl_->open_rank(rank);
  try {
    return SnapshotReader(
        std::make_unique<SnapshotReader::Impl>(opened, impl_->marked(std::move(*row), opened)));
  } catch (const Error& error) {
    // A missing file is damage, unless its writer has just removed it.
    if (error.code() != ErrorCode::not_found) throw;
    if (!impl_->row_with_data(rank, id)) impl_->refuse_missing(rank, id);
    throw Error(ErrorCode::corrupt, error.what());
  }
}

std::vector<StoredDamage> StoreReader::verify(std::uint32_t rank, SnapshotId id) const {
  std::set<SnapshotId> checked_states;
  auto damage = impl_->verify(rank, id, checked_states);
  if (!damage) impl_->refuse_missing(rank, id);
  return std::move(*damage);
}

std::vector<StoredDamage> StoreReader::verify() const {
  std::vector<StoredDamage> all;
  for (const auto rank : ranks()) {
    std::set<SnapshotId> checked_states;  // Several snapshots may share one.
    for (const auto& info : list(rank)) {
      if (info.state == SnapshotState::data_gone) continue;
      const auto damage = impl_->verify(rank, info.id, checked_states);
      if (damage) all.insert(all.end(), damage->begin(), damage->end());
    }
  }
  return all;
}

}  // namespace gradstore
