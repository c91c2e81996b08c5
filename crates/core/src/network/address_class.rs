//! Tells addresses of the public internet from all others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kind of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressClass {
    /// A host of the public internet.
    Public,
    /// This machine.
    Loopback,
    /// A private network, and shared address space (CGNAT).
    Private,
    /// The local link, among them the metadata services of clouds.
    LinkLocal,
    /// A group of hosts.
    Multicast,
    /// An address that no host has, or that carries another one in a way that cannot be judged.
    Reserved,
}

impl AddressClass {
    /// Returns the class of an address. An IPv6 address that carries an IPv4 address has the class of that one.
    ///
    /// Blocks for documentation (`192.0.2.0/24` and others) count as public: no host of the internet has such an address,
    /// and test networks use them in place of public ones.
    pub fn of_address(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => classify_v4(address),
            IpAddr::V6(address) => classify_v6(address),
        }
    }

    /// Returns the words for the class: `a private address`.
    pub const fn as_words(self) -> &'static str {
        match self {
            Self::Public => "a public address",
            Self::Loopback => "an address of this machine",
            Self::Private => "a private address",
            Self::LinkLocal => "a link-local address",
            Self::Multicast => "a multicast address",
            Self::Reserved => "a reserved address",
        }
    }
}

fn classify_v4(address: Ipv4Addr) -> AddressClass {
    match address.octets() {
        [127, ..] => AddressClass::Loopback,
        [169, 254, ..] => AddressClass::LinkLocal,
        // The second line is shared address space, and benchmarks of private networks.
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressClass::Private,
        [100, 64..=127, ..] | [198, 18..=19, ..] => AddressClass::Private,
        [224..=239, ..] => AddressClass::Multicast,
        // Linux connects 0.0.0.0 to the machine itself.
        [0, 0, 0, 0] => AddressClass::Loopback,
        [0, ..] | [192, 0, 0, _] | [240..=255, ..] => AddressClass::Reserved,
        _ => AddressClass::Public,
    }
}

fn classify_v6(address: Ipv6Addr) -> AddressClass {
    let segments = address.segments();
    let [.., high, low] = segments;
    let carried = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        classify_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => AddressClass::Loopback,
        // Mapped, compatible, translated (NAT64) and 6to4 addresses.
        [0, 0, 0, 0, 0, 0xffff | 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => carried(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => carried(high, low),
        [0x2002, high, low, ..] => carried(high, low),
        [0xfc00..=0xfdff, ..] => AddressClass::Private,
        [0xfe80..=0xfeff, ..] => AddressClass::LinkLocal,
        [0xff00..=0xffff, ..] => AddressClass::Multicast,
        // Teredo hides the address; local NAT64 and the discard block lead nowhere that can be judged.
        [0x2001, 0, ..] | [0x64, 0xff9b, 1, ..] | [0x100, 0, 0, 0, ..] => AddressClass::Reserved,
        _ => AddressClass::Public,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        let cases = [
            (
                AddressClass::Public,
                "8.8.8.8 2606:4700::1111 203.0.113.80 64:ff9b::808:808 ::ffff:8.8.8.8",
            ),
            (
                AddressClass::Loopback,
                "127.0.0.1 127.9.9.9 0.0.0.0 ::1 :: ::ffff:127.0.0.1 ::127.0.0.1 64:ff9b::7f00:1",
            ),
            (AddressClass::Loopback, "2002:7f00:1:: ::ffff:0:7f00:1"),
            (
                AddressClass::Private,
                "10.1.2.3 172.16.0.1 172.31.255.1 192.168.0.1 100.64.0.1 100.127.0.1 198.18.0.1",
            ),
            (AddressClass::Private, "fc00::1 fd12::1 ::ffff:10.0.0.1 2002:a00:1::"),
            (
                AddressClass::LinkLocal,
                "169.254.169.254 fe80::1 fec0::1 ::ffff:169.254.1.1",
            ),
            (AddressClass::Multicast, "224.0.0.1 239.1.1.1 ff02::1"),
            (
                AddressClass::Reserved,
                "0.1.2.3 240.0.0.1 255.255.255.255 192.0.0.8 2001:0:1::1 100::1 64:ff9b:1::1",
            ),
        ];
        for (class, addresses) in cases {
            for address in addresses.split(' ') {
                assert_eq!(AddressClass::of_address(address.parse().unwrap()), class, "{address}");
            }
        }
    }
}
