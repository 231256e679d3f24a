// A bounded stock of equal memory blocks, lent out one by one.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "io/aligned_buffer.h"

namespace gradstore::io {

class BlockPool;

/// One block on loan; goes back when destroyed. May outlive its pool. Contents are whatever the
/// last borrower left. Empty once moved from.
class Block {
 public:
  Block(Block&& other) noexcept = default;
  Block& operator=(Block&& other) noexcept;
  ~Block();

  std::span<std::byte> bytes() const noexcept { return buffer_.bytes(); }

 private:
  friend class BlockPool;
  struct Stock;
  Block(std::shared_ptr<Stock> stock, AlignedBuffer buffer) noexcept
      : stock_(std::move(stock)), buffer_(std::move(buffer)) {}

  std::shared_ptr<Stock> stock_;
  AlignedBuffer buffer_;
};

/// All members are safe to call concurrently. Memory is taken when it is first needed and kept for
/// the next borrower; blocks and stock together never exceed the budget.
class BlockPool {
 public:
  /// `budget_bytes` is rounded down to whole blocks, but there is always at least one.
  /// Errors: Error{invalid_argument} when `block_bytes` is 0.
  BlockPool(std::size_t block_bytes, std::size_t budget_bytes);

  /// Waits until a block is free. Waiters are served in no particular order.
  /// Errors: std::bad_alloc, after which the block counts as free again.
  Block acquire();
  std::optional<Block> try_acquire();  ///< Nothing when all blocks are lent. Errors: as acquire().

  std::size_t block_bytes() const noexcept;
  std::size_t blocks_total() const noexcept;  ///< Lent or free, with memory or not yet.
  std::size_t free_blocks() const;            ///< What could be lent now.

  void release_memory();  ///< Gives the memory of idle blocks back to the operating system.

 private:
  std::shared_ptr<Block::Stock> stock_;
};

}  // namespace gradstore::io
