// Package bound holds the limits that many clients share: slots, connections, bytes an hour.
//
// A limit that strangers can fill blocks everybody else, so each limit here has four parts:
//
//   - a total;
//   - a share, which is the most that one network may hold;
//   - a part for known people, which strangers cannot use;
//   - a rule that says who gives way when the total is reached.
//
// A network counts twice: by itself (an IPv4 address or an IPv6 /64) and by its neighbourhood
// (/24 or /48), so that somebody with many addresses of one provider is one network here.
// Loopback, the host itself and the connections of a trusted proxy have no network. They count
// towards the total only. At the total they give way as one network does.
//
// A [Pot] limits what is held at one time, a [Rate] or [KeyRate] what is used in an hour. Each value is
// made from a [Spec], which is also its row in the table of bounds in the documentation.
//
// The package knows no clock but the one that it is given, and starts no goroutine.
package bound
