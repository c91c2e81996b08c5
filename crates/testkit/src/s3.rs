//! Real S3 servers for tests, another S3 tool beside Garret, and a proxy that loses answers on purpose.
//!
//! - [`Server`]: SeaweedFS (conditional writes, policies), moto (a second opinion) or rclone (answers 200 and ignores preconditions),
//!   started on loopback and gone with the test process, however that ends. Each test takes a [prefix](Server::prefix) of its own in the
//!   one bucket of the server.
//! - [`Keys`]: who asks. SeaweedFS knows identities that may do [only what Garret needs](Keys::limited), and [less](Keys::without).
//! - [`Issuer`]: who hands out keys to a web identity.
//! - [`Boto`]: boto3, which puts and sees plain objects.
//! - [`Proxy`]: a TCP proxy between Garret and a server, with [rules](Rule) that say which request meets which [fault](Fault), and what
//!   went through.
//!
//! ```no_run
//! use garret_testkit::s3::{Fault, Proxy, Rule, Server};
//!
//! let server = Server::shared_seaweed();
//! let proxy = Proxy::before(server);
//! let lost = proxy.add(Rule::new(Fault::LoseResponse).operation("PUT").target("notes.txt").times(1));
//! // … a storage at `proxy.endpoint()` with `server.keys()` in `server.bucket()` below `server.prefix()` writes notes.txt …
//! assert_eq!(lost.struck(), 1);
//! ```
//!
//! `scripts/setup-tests` brings the servers.

mod boto;
mod guarded;
mod issuer;
mod keys;
mod ports;
mod programs;
mod proxy;
mod server;

pub use boto::{Boto, Object};
pub use issuer::Issuer;
pub use keys::{Keys, LIMITED_BUCKET, Permission};
pub use proxy::{Fault, Proxy, Rule, Seen, Struck};
pub use server::{Brand, Server};
