// Package sets holds the lists that a plugin can look things up in. A set comes
// from a file, or from a nostr list that is stored here, and follows its changes.
//
// A member is either 32 bytes (a public key or an event id) or a text. A text of 64 hex
// digits, in either case, is the same member as its 32 bytes.
//
// # Files
//
// One member a line. An npub and 64 hex digits are 32 bytes, anything else is the
// text itself, as it stands: case counts. White space around it, blank lines, lines
// that begin with #, and what follows white space and # do not count.
//
// # Lists
//
// A list is a replaceable or addressable event: a follow list (NIP-02), a mute
// list or a set (NIP-51). Members are the first values of its tags:
//
//	p e               32 bytes, by 64 lower-case hex digits
//	a                 an address, kind:pubkey:d
//	t word r relay    the text as it stands
//
// Other tags, and values that do not have the right shape, are skipped. The private part of
// a list is encrypted for its author: nobody else can read it, so it is not in the set.
//
// # Invariants
//
//  1. A look-up never waits, and sees one version of a set, whole.
//  2. A source that is wrong or unreadable leaves the members as they were.
//     [Sets.Status] says so.
//  3. A set holds what the newest version of its list says, as far as that came to
//     [Sets.Published] or was read: an older version never replaces a newer one,
//     however the two race.
//  4. Members of one set, and of all sets together, are bounded.
//
// # How the host uses it
//
// The list may change between Open, which reads it, and the first Published. So:
// call Open, see to it that every commit reaches Published, and then call Refresh,
// which reads again what had not come to Published before; from then on call it
// every few seconds.
package sets
