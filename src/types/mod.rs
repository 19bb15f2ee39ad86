//! Floor 0: the nouns. Newtypes, limits and the two capability traits, so that no id is a bare
//! `String`, no time a bare `u64`, and no code below the edges owns a clock or a random source.

pub mod entropy;
pub mod id;
pub mod limit;
pub mod route;
pub mod secret;
pub mod seq;
pub mod text;
pub mod time;
