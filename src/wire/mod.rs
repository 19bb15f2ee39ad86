//! Floor 1: signed objects and HTTP shapes.
