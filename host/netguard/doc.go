// Package netguard decides which addresses of the network are contacted. What clients
// and events name may lead into the operator's own network: a URL is checked when it is
// read, and again here, by the address that its name has led to in the moment of the
// connection.
package netguard
