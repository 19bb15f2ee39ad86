//! The channel server.

fn main() {
    interlink::cli::mcp::main()
}
