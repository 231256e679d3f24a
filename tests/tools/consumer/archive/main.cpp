// Prints the newest snapshot of a store: look STORE
#include <gradstore/store_reader.h>

#include <cstring>
#include <exception>
#include <iostream>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const auto reader = gradstore::StoreReader::open(argv[1]);
    std::cout << "run " << reader.run_name() << '\n';
    for (const auto rank : reader.ranks()) {
      const auto newest = reader.latest(rank);
      if (!newest) continue;
      const auto snapshot = reader.snapshot(rank, newest->id);
      std::cout << "snapshot " << to_string(newest->id) << " at step " << newest->metadata.step
                << ", " << newest->metadata.user_json << '\n';
      for (const auto& param : snapshot.params()) {
        std::cout << param.name << ' ' << name_of(param.dtype) << " of " << param.slices.size()
                  << " slice:";
        const auto bytes = snapshot.read(param.name);
        std::vector<float> values(bytes.size() / sizeof(float));
        std::memcpy(values.data(), bytes.data(), bytes.size());
        for (const auto value : values) std::cout << ' ' << value;
        std::cout << "; sum " << param.slices[0].statistics.sum << '\n';
      }
      for (const auto& tensor : snapshot.state_tensors()) {
        std::cout << "state " << tensor.name << ": " << tensor.num_bytes << " bytes\n";
      }
    }
    std::cout << reader.verify().size() << " places damaged\n";
  } catch (const std::exception& error) {
    std::cerr << gradstore::describe(error) << '\n';
    return 1;
  }
}
