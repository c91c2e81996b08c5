//! The network of commands: which hosts they reach by name, and the record of their requests.
//!
//! Everything here is data in, decision out. The proxy of the crate `garret-network` asks for the decisions and carries
//! them out.

mod address_class;
mod host_rule;
mod network_choice;
mod network_log;
mod network_rules;

pub use address_class::AddressClass;
pub use host_rule::{HostName, HostRule, RequestedHost};
pub use network_choice::{HostSecret, NamedNetwork, NetworkChoice};
pub use network_log::{NetworkLog, NetworkRecord, NetworkRequest, PendingRequest, RefusedHost};
pub use network_rules::{NetworkRefusal, NetworkRules, RuleMatch, RuleSource};
