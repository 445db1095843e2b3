// Command limits is a policy that refuses events that are too large, too old or
// from the future, and passes on all others.
package main

import (
	_ "embed"
	"strconv"
	"strings"

	"talon/sdk/policy"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, new(limits))

func main() {}

// limits are the settings of the manifest; zero is no limit. The refusals are
// made when they are configured, so that a decision allocates nothing.
type limits struct {
	content, tags, tagBytes, refs, refBytes, age, future int64

	contentTooLarge, tooManyTags, tagsTooLarge, tooManyRefs, refsTooLarge, tooOld, inTheFuture policy.Verdict
}

func (l *limits) Configure(cfg policy.Config) error {
	l.content = cfg.Int("max_content_bytes")
	l.tags = cfg.Int("max_tags")
	l.tagBytes = cfg.Int("max_tag_bytes")
	l.refs = cfg.Int("max_refs")
	l.refBytes = cfg.Int("max_ref_bytes")
	l.age = cfg.Int("max_age_seconds")
	l.future = cfg.Int("max_future_seconds")

	refuse := func(rule, prefix, before string, n int64, after string) policy.Verdict {
		return policy.Reject(prefix, before+strconv.FormatInt(n, 10)+after).By(rule)
	}
	l.contentTooLarge = refuse("content-too-large", "blocked", "the content is larger than ", l.content, " bytes")
	l.tooManyTags = refuse("too-many-tags", "blocked", "the event has more than ", l.tags, " tags")
	l.tagsTooLarge = refuse("tags-too-large", "blocked", "the tags are larger than ", l.tagBytes, " bytes together")
	l.tooManyRefs = refuse("too-many-refs", "blocked", "the repository state has more than ", l.refs, " branches and tags")
	l.refsTooLarge = refuse("refs-too-large", "blocked", "the branches and tags of the repository state are larger than ", l.refBytes, " bytes together")
	l.tooOld = refuse("too-old", "invalid", "created_at is more than ", l.age, " seconds ago")
	l.inTheFuture = refuse("in-the-future", "invalid", "created_at is more than ", l.future, " seconds in the future")
	return nil
}

func (l *limits) Admit(in policy.Input) policy.Verdict {
	event, now := in.Event(), in.Now()
	if l.content > 0 && int64(len(event.Content())) > l.content {
		return l.contentTooLarge
	}
	if l.age > 0 && event.CreatedAt() < now-l.age {
		return l.tooOld
	}
	if l.future > 0 && event.CreatedAt() > now && event.CreatedAt()-now > l.future {
		return l.inTheFuture
	}
	// A tag takes two bytes at least: most events need no walk over their tags.
	limit := int64(event.TagBytes())
	if event.Kind() == kindState && (over(limit/2, l.tags) || over(limit, l.tagBytes) || over(limit/2, l.refs) || over(limit, l.refBytes)) {
		return l.admitState(event)
	}
	if l.tags > 0 && limit/2 > l.tags || l.tagBytes > 0 && limit > l.tagBytes {
		return l.admitTags(event)
	}
	return policy.Pass()
}

// kindState is that of repository states (NIP-34), whose tags are branches and tags of git.
const kindState = 30618

// over reports whether n is over a limit, if there is one.
func over(n, limit int64) bool { return limit > 0 && n > limit }

// admitState counts what is a branch or a tag apart from the other tags.
func (l *limits) admitState(event policy.Event) policy.Verdict {
	var tags, tagBytes, refs, refBytes int64
	for it := event.Tags(); it.Next(); {
		size := int64(it.Tag().Size())
		if strings.HasPrefix(it.Name(), "refs/") {
			refs++
			refBytes += size
		} else {
			tags++
			tagBytes += size
		}
		switch {
		case over(refs, l.refs):
			return l.tooManyRefs
		case over(refBytes, l.refBytes):
			return l.refsTooLarge
		case over(tags, l.tags):
			return l.tooManyTags
		case over(tagBytes, l.tagBytes):
			return l.tagsTooLarge
		}
	}
	return policy.Pass()
}

// Describe states the limits of all events by their names in NIP-11.
func (l *limits) Describe() policy.Description {
	return policy.Description{Limits: policy.Limitation{
		MaxContentLength: l.content, MaxEventTags: l.tags, CreatedAtLowerLimit: l.age, CreatedAtUpperLimit: l.future,
	}}
}

// Idle returns admit while there is no limit.
func (l *limits) Idle() []string {
	if l.content > 0 || l.tags > 0 || l.tagBytes > 0 || l.refs > 0 || l.refBytes > 0 || l.age > 0 || l.future > 0 {
		return nil
	}
	return []string{"admit"}
}

func (l *limits) admitTags(event policy.Event) policy.Verdict {
	// Counting is cheap, and spares walking what only somebody hostile sends.
	if l.tags > 0 && int64(event.TagCount()) > l.tags {
		return l.tooManyTags
	}
	if l.tagBytes == 0 || int64(event.TagBytes()) <= l.tagBytes {
		return policy.Pass()
	}
	var size int64
	for it := event.Tags(); it.Next(); {
		size += int64(it.Tag().Size())
		if size > l.tagBytes {
			return l.tagsTooLarge
		}
	}
	return policy.Pass()
}
