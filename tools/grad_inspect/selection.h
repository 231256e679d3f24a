// From an address to ranks and rows of a store.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "address.h"
#include "archive/store_view.h"
#include "gradstore/error.h"
#include "json_text.h"
#include "terminal.h"
#include "writer_probe.h"

namespace gradstore::inspect {

/// One rank of the store, as far as it can be read.
struct OpenRank {
  std::uint32_t rank = 0;
  archive::RankPaths paths;
  std::optional<Writer> writer;             ///< Who is writing it at this moment.
  std::string writer_unknown;               ///< Why that could not be found out; empty: it could.
  std::unique_ptr<archive::RankView> view;  ///< Null: it has no index, or `failure` says why.
  std::optional<Error> failure;             ///< The index is lost or cannot be read.
  std::vector<index::SnapshotRow> rows;     ///< Ascending, damage marked.

  bool may_be_written() const { return writer.has_value() || !writer_unknown.empty(); }
};

struct OpenStore {
  archive::StoreView view;
  std::vector<OpenRank> ranks;

  /// {"path", "uuid", "run_name", "format_version"}
  Json json() const;
};

/// Opens the ranks that `address` selects; one that cannot be read keeps its failure.
/// Errors: {invalid_argument} there is no such folder; {not_found} no such rank; those of
/// StoreView.
OpenStore open_store(const Address& address);

/// Tells `err` which ranks cannot be read. True if there are some.
bool report_unreadable_ranks(const OpenStore& store, std::ostream& err);

struct Selected {
  OpenRank* rank = nullptr;
  index::SnapshotRow row;
};

/// Rows that `selector` names, by id, then by rank. Those being removed are left out.
std::vector<Selected> select(OpenStore& store, const Selector& selector);

/// The newest snapshot among those selected: one row for each rank that has it.
struct Newest {
  std::vector<Selected> ranks;
  std::size_t others = 0;  ///< Snapshots that were selected too.
};

/// Prefers snapshots that have their data. Errors: Error{not_found} saying what there is instead.
Newest select_newest(OpenStore& store, const Address& address);

/// Error{invalid_argument} when group= or param= is given to a command that looks at whole
/// snapshots.
void refuse_part_keys(const Address& address, const std::string& command);

/// Error{not_found}: no snapshot of the store is selected.
[[noreturn]] void refuse_empty_selection(const OpenStore& store, const Address& address);

/// "step 3, micro-step 4 of 8, post_reduce"
std::string place_in_training(const SnapshotMetadata& metadata);

/// "snapshot 0001-00000012  step 3, ...  2026-12-01 02:29:24 UTC", and what is special about it.
void print_heading(std::ostream& out, const Style& style, const Newest& newest,
                   const Address& address);

}  // namespace gradstore::inspect
