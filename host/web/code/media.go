package code

import (
	"path"
	"strings"
)

// media is how a browser may show a file.
type media struct {
	contentType string
	image       bool
	audio       bool
	video       bool
	text        bool // it is a text as well
}

// mediaTypes are files that a browser shows as they are, by their extensions. None of them runs
// anything in the sandbox that [File] has.
var mediaTypes = map[string]media{
	"png":  {contentType: "image/png", image: true},
	"jpg":  {contentType: "image/jpeg", image: true},
	"jpeg": {contentType: "image/jpeg", image: true},
	"gif":  {contentType: "image/gif", image: true},
	"webp": {contentType: "image/webp", image: true},
	"avif": {contentType: "image/avif", image: true},
	"ico":  {contentType: "image/x-icon", image: true},
	"bmp":  {contentType: "image/bmp", image: true},
	"svg":  {contentType: "image/svg+xml", image: true, text: true},
	"mp3":  {contentType: "audio/mpeg", audio: true},
	"ogg":  {contentType: "audio/ogg", audio: true},
	"oga":  {contentType: "audio/ogg", audio: true},
	"opus": {contentType: "audio/ogg", audio: true},
	"flac": {contentType: "audio/flac", audio: true},
	"wav":  {contentType: "audio/wav", audio: true},
	"mp4":  {contentType: "video/mp4", video: true},
	"webm": {contentType: "video/webm", video: true},
}

// mediaOf returns how a browser may show a file of a name.
func mediaOf(name string) media {
	return mediaTypes[strings.ToLower(strings.TrimPrefix(path.Ext(name), "."))]
}
