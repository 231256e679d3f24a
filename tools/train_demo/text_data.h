// The training text: bytes in, batches of token ids out.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace train_demo {

/// Inputs and, one character further on, what should be predicted. Shape: [rows, length], int64.
struct Batch {
  at::Tensor inputs;
  at::Tensor targets;
};

/// Reads a text file in order, over and over. The vocabulary is the bytes that occur in it.
class TextData {
 public:
  /// Errors: std::runtime_error a file that cannot be read, or has no `length` + 1 bytes.
  TextData(const std::filesystem::path& file, std::int64_t rows, std::int64_t length);

  std::int64_t vocabulary_size() const;

  /// Checksum of the text, as hexadecimal digits: a position means nothing in another text.
  const std::string& digest() const;

  /// The next batch; moves the position on. A row that would pass the end starts at the beginning.
  Batch next_batch();

  /// Where the next row starts, in bytes from the start of the text.
  std::int64_t position() const;

  /// Errors: std::runtime_error no row can start at `position`.
  void set_position(std::int64_t position);

 private:
  std::vector<std::int64_t> tokens_;
  std::int64_t vocabulary_size_ = 0;
  std::string digest_;
  std::int64_t rows_;
  std::int64_t length_;
  std::int64_t position_ = 0;
};

}  // namespace train_demo
