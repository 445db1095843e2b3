package policy

import "time"

// What a module keeps outlives its instances, a new version of the module and a
// restart of the relay. All instances share it, and it changes at once, also if
// the event is refused later.

// KVGet returns the value that the module has kept under a key of at most 256
// bytes, and whether there is one. The value is valid until the next function
// that answers with data. It needs the capability "kv.get".
func (f Facts) KVGet(key string) ([]byte, bool) {
	c := f.c
	n := c.ask(func(out []byte) int32 { return c.host.kvGet(key, out) })
	if n < 0 {
		return nil, false
	}
	return c.answer[:n], true
}

// KVSet keeps a value of at most 64 KiB for ttl seconds, or for ever if ttl is 0.
// It reports false if the module has used up its room: then nothing changes. It
// needs the capability "kv.set".
func (f Facts) KVSet(key string, value []byte, ttl int64) bool {
	return f.c.host.kvSet(key, value, ttl) == 0
}

// KVDelete forgets a key. It needs the capability "kv.delete".
func (f Facts) KVDelete(key string) { f.c.host.kvDelete(key) }

// KVIncr adds delta to the counter at key and returns the sum, which stops at the
// ends of int64. A key that is new begins at 0 and lives for ttl seconds, or for
// ever if ttl is 0. Where there is no room, the stored value stays, and the
// result is what the sum would be. It needs the capability "kv.incr".
//
// For [Facts.KVGet], a counter is 8 bytes, little endian.
func (f Facts) KVIncr(key string, delta, ttl int64) int64 {
	return f.c.host.kvIncr(key, delta, ttl)
}

// Take takes n tokens from a bucket that holds up to burst and gets one back in
// each interval every, counted in milliseconds, at least one. It reports false if
// they are not there, and after which time they would be: wait is negative if that
// is never, since n is more than burst. It needs the capability "bucket.take".
//
// A bucket from which nobody took is full, so one for every address or author is
// no burden.
func (f Facts) Take(key string, n, burst int, every time.Duration) (wait time.Duration, ok bool) {
	millis := f.c.host.bucketTake(key, tokens(n), tokens(burst), max(every.Milliseconds(), 1))
	return time.Duration(min(millis, maxMillis)) * time.Millisecond, millis == 0
}

func tokens(n int) int32 { return int32(min(max(n, 0), maxTokens)) }

const (
	maxTokens = 1<<31 - 1                         // of a bucket
	maxMillis = 1 << 62 / int64(time.Millisecond) // keeps a time.Duration from overflowing
)

// InSet reports whether a set that the operator has given the module has the
// member, and whether there is such a set. 64 hex digits stand for the key that
// they name. It needs the capability "sets.contains".
func (f Facts) InSet(name, member string) (yes, known bool) {
	n := f.c.host.setsContains(name, member)
	return n == 1, n >= 0
}

// PubKeyInSet is InSet for a public key.
func (f Facts) PubKeyInSet(name string, pk PubKey) (yes, known bool) {
	c := f.c
	c.member = pk
	n := c.host.setsContains(name, view(c.member[:]))
	return n == 1, n >= 0
}
