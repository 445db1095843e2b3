// Package relayclient sends events to a relay and asks it for events, as a client of
// NIP-01 does, over one websocket.
//
// Invariants:
//
//  1. The relay is not trusted. What it sends is bounded in bytes (the handshake, a
//     message) and in time: every call ends when its context does.
//  2. A message is held in memory as it arrives, not as its header claims.
//  3. After an error the connection is closed, and every later call returns that
//     error.
//  4. A key proves itself (NIP-42) only to a relay that asks for it: never before
//     an answer "auth-required: …".
//
// It never checks the ids and signatures of the events that it is sent, nor that
// they are what was asked for: that is for whoever uses them. It does not
// reconnect, and follows no redirect.
package relayclient
