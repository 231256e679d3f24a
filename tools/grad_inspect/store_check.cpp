#include "store_check.h"

#include <algorithm>
#include <string_view>

#include "core/digest.h"
#include "human_text.h"

namespace gradstore::inspect {

namespace {

constexpr std::string_view kSuffix = ".h5";

std::optional<SnapshotId> id_of_file(std::string_view name) {
  if (!name.ends_with(kSuffix)) return std::nullopt;
  return parse_snapshot_id(name.substr(0, name.size() - kSuffix.size()));
}

bool still_there(const Selected& selected) {
  auto& index = selected.rank->view->index();
  index.catch_up();
  const auto row = index.find(selected.row.info.id);
  return row && row->info.state == SnapshotState::committed;
}

bool same_bits(const kernels::Statistics& a, const kernels::Statistics& b) {
  const auto same = [](double x, double y) { return x == y || (x != x && y != y); };
  return a.count == b.count && a.nan == b.nan && a.positive_infinity == b.positive_infinity &&
         a.negative_infinity == b.negative_infinity && a.zero == b.zero && same(a.min, b.min) &&
         same(a.max, b.max) && same(a.absmax, b.absmax) && same(a.sum, b.sum) &&
         same(a.sum_of_squares, b.sum_of_squares);
}

}  // namespace

struct StoreCheck::Role {
  LayoutKind kind;
  SnapshotId id;  // Whose file it is.
  io::Path path;
  Digest128 root;
};

std::string StoreCheck::below_store(const io::Path& path) const {
  return path.lexically_relative(store_.view.directory()).string();
}

void StoreCheck::check_snapshot(const Selected& selected) {
  const auto& [rank, row] = selected;
  if (row.info.state == SnapshotState::data_gone) return;
  std::vector<Finding> damage;
  check_file(selected,
             {LayoutKind::gradients, row.info.id, rank->paths.gradients_file(row.info.id),
              row.root_digest},
             damage);
  if (const auto state = row.info.state_id;
      state && checked_states_.insert({rank->rank, *state}).second) {
    check_file(selected,
               {LayoutKind::state, *state, rank->paths.state_file(*state), row.state_root_digest},
               damage);
  }
  // Beside a live writer a file may be removed while we read it: the row tells.
  if (!damage.empty() && !still_there(selected)) {
    result_.gone.push_back(row.info.id);
    return;
  }
  ++result_.snapshots;
  result_.damage.insert(result_.damage.end(), damage.begin(), damage.end());
}

void StoreCheck::check_file(const Selected& selected, const Role& role,
                            std::vector<Finding>& damage) {
  Finding finding;
  finding.rank = selected.rank->rank;
  finding.file = below_store(role.path);
  finding.snapshot = selected.row.info.id;
  finding.region = "file";
  try {
    const auto& view = *selected.rank->view;
    const bool gradients = role.kind == LayoutKind::gradients;
    const auto verification =
        gradients ? view.verify_gradients(role.id) : view.verify_state(role.id);
    ++result_.files;
    result_.bytes += verification.bytes_checked;
    result_.slices += verification.slices_checked;
    for (const auto& found : verification.damage) {
      finding.region = found.region;
      finding.param = found.param;
      finding.slice = found.slice;
      finding.offset = found.offset;
      finding.what = found.what;
      damage.push_back(finding);
    }
    on_progress_(result_);
    if (!verification.damage.empty()) return;
    const auto file = gradients ? view.open_gradients(role.id) : view.open_state(role.id);
    finding.region = "index";
    if (root_digest(file.seal()) != role.root) {
      finding.what =
          "the file is whole, but its root digest is not the one in the index: it is not "
          "the file that was committed";
      damage.push_back(finding);
    } else if (gradients) {
      compare_with_index(selected, file, damage);
    }
  } catch (const Error& error) {
    finding.what = "not fully checked: " + describe(error);
    damage.push_back(finding);
  }
}

void StoreCheck::compare_with_index(const Selected& selected, const archive::FileReader& file,
                                    std::vector<Finding>& damage) {
  Finding finding;
  finding.rank = selected.rank->rank;
  finding.snapshot = selected.row.info.id;
  finding.region = "index";
  auto& index = selected.rank->view->index();
  try {
    const auto layout = index.layout(selected.row.layout_digest);
    if (layout != file.layout()) {
      finding.what = "the index has another layout for it than its file";
      damage.push_back(finding);
      return;
    }
    const auto indexed = index.fingerprints(selected.row, layout);
    for (std::size_t s = 0; s < indexed.size(); ++s) {
      const auto& in_file = file.fingerprints()[s];
      if (indexed[s].digest == in_file.digest &&
          same_bits(indexed[s].statistics, in_file.statistics)) {
        continue;
      }
      finding.param = layout.params[layout.slices[s].param].name;
      finding.slice = layout.slices[s].position;
      finding.what = archive::describe_slice(layout, s) +
                     " has other statistics in the index than in its file";
      damage.push_back(finding);
    }
  } catch (const Error& error) {
    finding.what = describe(error);
    damage.push_back(finding);
  }
}

void StoreCheck::check_index(const OpenRank& rank) {
  if (!rank.failure) return;
  Finding finding;
  finding.rank = rank.rank;
  finding.region = "index";
  finding.what = rank.failure->what();
  result_.damage.push_back(std::move(finding));
}

void StoreCheck::check_leftovers(OpenRank& rank) {
  const auto files = io::posix_file_system();
  const auto list = [&files](const io::Path& folder) {
    return files->status(folder) ? files->list(folder) : std::vector<std::string>();
  };
  // Listed before the index is read again: a file without a row then is not about to get one.
  const auto gradients = list(rank.paths.snapshots());
  const auto states = list(rank.paths.state());
  if (rank.view) rank.rows = rank.view->list();
  for (const auto& name : gradients) check_unnamed(rank, LayoutKind::gradients, name);
  for (const auto& name : states) check_unnamed(rank, LayoutKind::state, name);
}

void StoreCheck::check_unnamed(OpenRank& rank, LayoutKind kind, const std::string& name) {
  const auto id = id_of_file(name);
  const auto named_by = [&](const index::SnapshotRow& row) {
    if (row.info.state == SnapshotState::data_gone) return false;
    return kind == LayoutKind::gradients ? row.info.id == id : row.info.state_id == id;
  };
  if (id && std::ranges::any_of(rank.rows, named_by)) return;

  const auto folder = kind == LayoutKind::gradients ? rank.paths.snapshots() : rank.paths.state();
  const auto path = folder / name;
  const auto files = io::posix_file_system();
  if (!files->status(path)) return;  // Gone since, or renamed: then it was being written.
  const bool newer = id && (rank.rows.empty() || *id > rank.rows.back().info.id);
  if (rank.may_be_written() && (name.ends_with(".tmp") || newer)) {
    ++result_.being_written;
    return;
  }
  Finding finding;
  finding.rank = rank.rank;
  finding.file = below_store(path);
  finding.snapshot = id;
  finding.region = "file";
  if (name.ends_with(".tmp")) {
    finding.what = "left unfinished by a writer that died; the next open removes it";
    result_.leftovers.push_back(finding);
    return;
  }
  if (!id) {
    finding.what = name.ends_with(".damaged") ? "set aside as damaged when the store was opened"
                                              : "is not a snapshot's file";
    result_.leftovers.push_back(finding);
    return;
  }
  const auto verification =
      archive::verify_file(*files, path, {kind, store_.view.info().uuid, rank.rank, *id});
  ++result_.files;
  result_.bytes += verification.bytes_checked;
  result_.slices += verification.slices_checked;
  on_progress_(result_);
  finding.what =
      verification.damage.empty()
          ? "every byte is whole, but no row of the index names it"
          : "no row of the index names it, and it is damaged: " + verification.damage.front().what;
  result_.leftovers.push_back(finding);
}

}  // namespace gradstore::inspect
