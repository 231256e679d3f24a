#include "io/block_pool.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "gradstore/error.h"

namespace gradstore::io {

struct Block::Stock {
  Stock(std::size_t bytes, std::size_t blocks) : block_bytes(bytes), total(blocks) {
    idle.reserve(total);  // So that give_back() cannot throw.
  }

  bool any_free() const { return lent < total; }

  // Call with the mutex held and a block free; the lock is dropped while memory is mapped.
  AlignedBuffer lend(std::unique_lock<std::mutex> lock) {
    ++lent;
    if (!idle.empty()) {
      // The warmest one: it was used last.
      AlignedBuffer buffer = std::move(idle.back());
      idle.pop_back();
      return buffer;
    }
    lock.unlock();
    try {
      return AlignedBuffer(block_bytes);
    } catch (...) {
      give_back(AlignedBuffer());
      throw;
    }
  }

  // An empty buffer gives back the right to a block only.
  void give_back(AlignedBuffer buffer) noexcept {
    {
      const std::lock_guard guard(mutex);
      --lent;
      if (buffer.size() != 0) idle.push_back(std::move(buffer));
    }
    became_free.notify_one();
  }

  const std::size_t block_bytes;
  const std::size_t total;
  const pid_t pid = ::getpid();
  std::mutex mutex;
  std::condition_variable became_free;
  std::size_t lent = 0;
  std::vector<AlignedBuffer> idle;
};

Block& Block::operator=(Block&& other) noexcept {
  Block incoming(std::move(other));
  std::swap(stock_, incoming.stock_);
  std::swap(buffer_, incoming.buffer_);
  return *this;
}

Block::~Block() {
  // In a forked child the mutex may be held by a thread that is not there.
  if (stock_ && stock_->pid == ::getpid()) stock_->give_back(std::move(buffer_));
}

BlockPool::BlockPool(std::size_t block_bytes, std::size_t budget_bytes) {
  if (block_bytes == 0) throw Error(ErrorCode::invalid_argument, "BlockPool: blocks of 0 bytes");
  stock_ = std::make_shared<Block::Stock>(block_bytes,
                                          std::max<std::size_t>(1, budget_bytes / block_bytes));
}

Block BlockPool::acquire() {
  std::unique_lock lock(stock_->mutex);
  stock_->became_free.wait(lock, [this] { return stock_->any_free(); });
  return Block(stock_, stock_->lend(std::move(lock)));
}

std::optional<Block> BlockPool::try_acquire() {
  std::unique_lock lock(stock_->mutex);
  if (!stock_->any_free()) return std::nullopt;
  return Block(stock_, stock_->lend(std::move(lock)));
}

std::size_t BlockPool::block_bytes() const noexcept { return stock_->block_bytes; }

std::size_t BlockPool::blocks_total() const noexcept { return stock_->total; }

std::size_t BlockPool::free_blocks() const {
  const std::lock_guard guard(stock_->mutex);
  return stock_->total - stock_->lent;
}

void BlockPool::release_memory() {
  std::vector<AlignedBuffer> unused;  // Outlives the guard: unmapping takes long.
  unused.reserve(stock_->total);
  const std::lock_guard guard(stock_->mutex);
  std::swap(unused, stock_->idle);
}

}  // namespace gradstore::io
