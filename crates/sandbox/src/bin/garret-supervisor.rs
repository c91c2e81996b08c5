//! The supervisor as a program of its own, for programs that embed Garret.

fn main() -> std::process::ExitCode {
    garret_sandbox::supervisor::main()
}
