package layers

// Items are repositories and root events, by their numbers in an [Index]: what
// layers 2 and 3 ask for.
type Items struct{ Repos, Roots Set }

// Empty reports whether there are none.
func (i Items) Empty() bool { return i.Repos.Empty() && i.Roots.Empty() }

// Len is how many there are.
func (i Items) Len() int { return i.Repos.Len() + i.Roots.Len() }

// AddItems puts all of o into i.
func (i *Items) AddItems(o Items) {
	i.Repos.AddSet(o.Repos)
	i.Roots.AddSet(o.Roots)
}

// RemoveItems takes all of o out of i.
func (i *Items) RemoveItems(o Items) {
	i.Repos.Remove(o.Repos)
	i.Roots.Remove(o.Roots)
}

// common is what is in both. It may share memory with i.
func (i Items) common(o Items) Items {
	rest := i
	rest.RemoveItems(o)
	i.RemoveItems(rest)
	return i
}

// Clone returns a copy that shares nothing.
func (i Items) Clone() Items { return Items{i.Repos.Clone(), i.Roots.Clone()} }

// Plan is the three-way diff: what is wanted and neither on its way nor here. It
// is the only place that decides what is to be asked for anew.
func Plan(wanted, pending, confirmed Items) Items {
	wanted.RemoveItems(pending)
	wanted.RemoveItems(confirmed)
	return wanted
}
