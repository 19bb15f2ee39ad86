//! Floor 1: signatures, hashes, key files.
