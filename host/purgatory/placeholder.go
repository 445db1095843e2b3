package purgatory

// GitFirst is how long a ref under refs/nostr/ is kept without its event, in seconds.
const GitFirst = 20 * 60

// PlaceholderExpired reports whether a ref under refs/nostr/ that was pushed at
// since, and whose event has not come, is to be deleted.
func PlaceholderExpired(since, now int64) bool { return now-since >= GitFirst }
