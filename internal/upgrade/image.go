package upgrade

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// implicitTag is the tag of an image that names neither a tag nor a digest.
const implicitTag = "latest"

// split returns the tag and the digest of an image. Only one of them may be empty.
func split(image string) (tag, digest string) {
	image, digest, _ = strings.Cut(image, "@")
	if at := strings.LastIndex(image, ":"); at > strings.LastIndex(image, "/") {
		tag = image[at+1:]
	}
	if tag == "" && digest == "" {
		tag = implicitTag
	}
	return tag, digest
}

// Reference returns what identifies an image best: a tag that is a version, its digest, or any tag.
func Reference(image string) string {
	tag, digest := split(image)
	if digest != "" && parse(tag) == nil {
		return digest
	}
	return tag
}

// sameImage reports whether two images have the same tag or digest. The registry and the repository
// do not count: they differ between a mirror and its source. One of the images may have a digest in
// addition, because admission webhooks add it.
func sameImage(a, b string) bool {
	tagA, digestA := split(a)
	tagB, digestB := split(b)
	if digestA != "" && digestB != "" {
		return digestA == digestB
	}
	return tagA != "" && tagA == tagB
}

// SameImage reports whether two images have the same tag or digest.
func SameImage(a, b string) bool { return sameImage(a, b) }

// versionOf returns the version in the tag of an image, or nil if there is none.
func versionOf(image string) *version.Version {
	tag, _ := split(image)
	return parse(tag)
}

// parse returns a version of Coder, for example of v2.36.1 or v2.36.1+7bd778d, or nil if the text is
// none. Coder says v0.0.0 if it was built without its version. Its pre-releases are named rc and
// devel. Any other suffix, as in v2.36.1-fips, is that of an image that somebody built.
func parse(text string) *version.Version {
	core, suffix, _ := strings.Cut(text, "-")
	if !strings.HasPrefix(suffix, "rc") && !strings.HasPrefix(suffix, "devel") {
		text = core
	}
	v, err := version.ParseSemantic(text)
	if err != nil || v.Major() == 0 {
		return nil
	}
	return v
}

// lineOf identifies the versions that have the same database schema: the patches of one minor
// version. Each pre-release may have another schema.
func lineOf(v *version.Version) string {
	return fmt.Sprintf("%d.%d-%s", v.Major(), v.Minor(), v.PreRelease())
}

// sameSchema reports whether two versions are known and have the same database schema.
func sameSchema(a, b *version.Version) bool {
	return a != nil && b != nil && lineOf(a) == lineOf(b)
}

// Older reports whether a version of Coder is known to have an older database schema than another
// one.
func Older(a, b string) bool { return older(parse(a), parse(b)) }

func older(a, b *version.Version) bool {
	return a != nil && b != nil && !sameSchema(a, b) && a.LessThan(b)
}

// Differ reports whether two versions of Coder are known and have different database schemas.
func Differ(a, b string) bool {
	return parse(a) != nil && parse(b) != nil && !sameSchema(parse(a), parse(b))
}

// ImageOf returns the image for a version or an image that a user names: the repository of the
// current image with the tag of the version, or the named image.
func ImageOf(named, current string) string {
	if strings.ContainsAny(named, "/@:") {
		return named
	}
	repository, _, _ := strings.Cut(current, "@")
	if at := strings.LastIndex(repository, ":"); at > strings.LastIndex(repository, "/") {
		repository = repository[:at]
	}
	if parse(named) != nil {
		named = "v" + strings.TrimPrefix(named, "v")
	}
	return repository + ":" + named
}
