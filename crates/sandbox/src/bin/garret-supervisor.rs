//! The supervisor as a separate program, for programs that embed Garret.

fn main() -> std::process::ExitCode {
    garret_sandbox::supervisor::main()
}
