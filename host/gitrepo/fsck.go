package gitrepo

import "strings"

// fsckIgnored are the faults of objects (fsck.<msg-id> of git-config) that a push or a
// fetch may bring. All others are refused on both ways, warnings of git too, as git does
// where transfer.fsckObjects is set:
//
//   - what attacks whoever checks it out or clones submodules: hasDot, hasDotdot,
//     hasDotgit, emptyName, fullPathname, duplicateEntries, treeNotSorted and
//     gitmodules* but Parse
//   - what overflows old clients: gitattributes* but Symlink
//   - what hides a part of a message from readers: nulInCommit
//   - what git cannot read, or would not write: the rest
//
// Here is what old programs and converters wrote into histories that people publish
// today, and what git itself only mentions. It hurts nobody: git shows such a date,
// name or mode as well as it can. A commit cannot be mended without a new id, and so
// without a new history.
var fsckIgnored = []string{
	// Authors, committers and taggers: of git before 1.5, of imports from Subversion,
	// Mercurial and Bazaar, and of names that were empty.
	"badDate", "badDateOverflow", "badEmail", "badName", "badTimezone", "missingEmail", "missingNameBeforeEmail",
	"missingSpaceBeforeDate", "missingSpaceBeforeEmail", "multipleAuthors", "zeroPaddedDate",

	// Modes of files: of git in 2005, and of other programs that write trees. What git
	// makes of them when it checks out is 644, 755 or a folder.
	"badFilemode", "zeroPaddedFilemode",

	// Tags from before 2005 have no tagger, and some have a name that is none today.
	"badTagName", "missingTaggerEntry",

	// Git mentions these and goes on; they would be a line for each commit. It reads no
	// such file through a link, and no submodule from what does not parse.
	"gitmodulesParse", "gitattributesSymlink", "gitignoreSymlink", "mailmapSymlink",
}

// fsckArgument has git index-pack check each object. Links between objects are checked
// as well; git checks no faults without.
func fsckArgument() string { return "--strict=" + strings.Join(fsckIgnored, "=ignore,") + "=ignore" }

// fsckConfig has git fetch check what fsckArgument does.
func fsckConfig() [][2]string {
	list := [][2]string{{"fetch.fsckObjects", "true"}}
	for _, fault := range fsckIgnored {
		list = append(list, [2]string{"fetch.fsck." + fault, "ignore"})
	}
	return list
}

// fsckFault returns what git found wrong with objects, if it ended because of that. What
// a server says, git writes behind "remote: ", so it counts for nothing here.
func fsckFault(stderr []byte) string {
	const fault, end = "error: ", "fatal: fsck error in pack"
	var faults []string
	ended := false
	for line := range strings.FieldsFuncSeq(string(stderr), func(r rune) bool { return r == '\n' || r == '\r' }) {
		if text, ok := strings.CutPrefix(line, fault+"object "); ok {
			faults = append(faults, "object "+text)
		}
		ended = ended || strings.HasPrefix(line, end)
	}
	switch {
	case !ended:
		return ""
	case len(faults) == 0: // they were too long to be kept
		return "fsck error in packed object"
	}
	return printable(strings.Join(faults, "; "))
}
