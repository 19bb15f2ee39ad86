//! The bus's HTTP interface, row by row: status codes, bodies, headers.

mod admin;
mod bounds;
mod errors;
mod guard;
mod longpoll;
mod mail;
mod presence;
