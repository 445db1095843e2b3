// Package devnet is a small nostr network on the loopback interface: relays that are
// not ours (khatru, and those of profiles of package relaymodel), git servers, and
// people who announce repositories, push to them, open issues and talk. A Talon syncs
// from them, and tests know exactly which events it must have in the end.
//
// All of it is made from a seed: the same [Config] makes the same keys, events and
// git objects. What goes on while it runs (traffic, outages, lost messages) follows
// the clock.
//
// Invariants:
//
//  1. It listens on the loopback interface alone, and contacts nothing but the Talon
//     that it compares with.
//  2. A relay's events are in memory, and gone with the process. Repositories are in
//     [Config.Dir], made by the git program.
//  3. What a relay was given stays: an outage cuts it off from the network, and it goes
//     on getting events meanwhile.
//  4. Every event that Talon is to have is on a relay from which it can be had: a dead or a
//     lying relay has copies alone.
//  5. [Net.Expected] is what a GRASP service at [Config.Talon] keeps of what the relays
//     have: all that belongs to a repository that lists it, and nothing else.
//
// It is for tests and demonstrations. Whoever reaches a relay of it can fill the memory.
package devnet
