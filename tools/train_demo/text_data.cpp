#include "text_data.h"

#include <ATen/ops/tensor.h>

#include <array>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>

#include "core/digest.h"

namespace train_demo {

TextData::TextData(const std::filesystem::path& file, std::int64_t rows, std::int64_t length)
    : rows_(rows), length_(length) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) {
    throw std::runtime_error("the text cannot be read: " + file.string());
  }
  if (static_cast<std::int64_t>(text.size()) <= length) {
    throw std::runtime_error("the text is too short: " + file.string() + " has " +
                             std::to_string(text.size()) + " bytes, at least " +
                             std::to_string(length + 1) + " are needed");
  }
  digest_ = to_string(gradstore::digest_of(std::as_bytes(std::span(text))));

  std::array<bool, 256> occurs{};
  for (const char c : text) occurs[static_cast<unsigned char>(c)] = true;
  std::array<std::int64_t, 256> token_of{};
  for (std::size_t byte = 0; byte < occurs.size(); ++byte) {
    if (occurs[byte]) token_of[byte] = vocabulary_size_++;
  }
  tokens_.reserve(text.size());
  for (const char c : text) tokens_.push_back(token_of[static_cast<unsigned char>(c)]);
}

std::int64_t TextData::vocabulary_size() const { return vocabulary_size_; }

const std::string& TextData::digest() const { return digest_; }

Batch TextData::next_batch() {
  std::vector<std::int64_t> inputs;
  std::vector<std::int64_t> targets;
  for (std::int64_t row = 0; row < rows_; ++row) {
    if (position_ + length_ >= static_cast<std::int64_t>(tokens_.size())) position_ = 0;
    const auto begin = tokens_.begin() + position_;
    inputs.insert(inputs.end(), begin, begin + length_);
    targets.insert(targets.end(), begin + 1, begin + length_ + 1);
    position_ += length_;
  }
  return {.inputs = at::tensor(inputs).view({rows_, length_}),
          .targets = at::tensor(targets).view({rows_, length_})};
}

std::int64_t TextData::position() const { return position_; }

void TextData::set_position(std::int64_t position) {
  if (position < 0 || position > static_cast<std::int64_t>(tokens_.size())) {
    throw std::runtime_error("the text ends before position " + std::to_string(position));
  }
  position_ = position;
}

}  // namespace train_demo
