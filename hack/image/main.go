// Command image assembles a container image from files, without an engine and without a registry, and writes it as a
// docker-archive tar: `ctr images import`, `docker load`, `kind load image-archive`, `podman load` and `crane push` read it.
//
// The same input results in the same bytes on every machine: entries are sorted and owned by root,
// and all times are SOURCE_DATE_EPOCH (seconds; 0 if it is not set).
//
//	image -out app.tar -tag example.com/app:v1 -distroless -entrypoint /app -user 65532:65532 ./bin/app:/app
//
// With "index" as its first argument it combines such images of several platforms under one name:
//
//	image index -push example.com/app:v1 app-amd64.tar app-arm64.tar
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const usage = "usage: image -out FILE.tar -tag NAME:TAG [flags] [SOURCE:DESTINATION[:MODE]...]"

func main() {
	var err error
	if args := os.Args[1:]; len(args) > 0 && args[0] == "index" {
		err = runIndex(args[1:], os.Stdout)
	} else {
		err = run(args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: "+err.Error())
		os.Exit(1)
	}
}

// list is a flag that may be given more than once.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

func run(args []string) error {
	fs := flag.NewFlagSet("image", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprintln(fs.Output(), usage); fs.PrintDefaults() }
	var dirs, texts, links, env, labels list
	out := fs.String("out", "", "the tar `file` to write")
	tag := fs.String("tag", "", "the image's `name:tag`")
	platform := fs.String("platform", "linux/"+runtime.GOARCH, "`os/arch` of the programs inside: linux/amd64 or linux/arm64")
	distroless := fs.Bool("distroless", false, "begin with Mozilla's CA certificates, /etc/passwd with nonroot (65532), /tmp and /home/nonroot")
	gzip := fs.Bool("gzip", false, "compress the layers: smaller to push, slower to make")
	entrypoint := fs.String("entrypoint", "", "the entrypoint, `comma-separated`")
	cmd := fs.String("cmd", "", "the default arguments, `comma-separated`")
	user := fs.String("user", "", "`uid:gid` to run as")
	workdir := fs.String("workdir", "/", "the working `directory`")
	fs.Var(&dirs, "dir", "a directory, `path[:mode]` (repeatable)")
	fs.Var(&texts, "text", `a small file, `+"`path=content`"+`, where \n is a new line (repeatable)`)
	fs.Var(&links, "symlink", "a symbolic link, `path=target` (repeatable)")
	fs.Var(&env, "env", "an environment variable, `name=value` (repeatable)")
	fs.Var(&labels, "label", "a label, `key=value` (repeatable)")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *out == "" || *tag == "" {
		return fmt.Errorf("-out and -tag are needed; %s", usage)
	}
	when, err := buildTime(os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		return err
	}
	goos, arch, ok := strings.Cut(*platform, "/")
	if !ok || goos != "linux" || (arch != "amd64" && arch != "arm64") {
		return fmt.Errorf("-platform %q must be linux/amd64 or linux/arm64", *platform)
	}

	content := newTree()
	for _, add := range []struct {
		values list
		to     func(string) error
	}{{dirs, content.addDir}, {texts, content.addText}, {links, content.addLink}, {fs.Args(), content.addSource}} {
		for _, v := range add.values {
			if err := add.to(v); err != nil {
				return err
			}
		}
	}
	trees := []*tree{content}
	if *distroless {
		base, err := distrolessTree()
		if err != nil {
			return err
		}
		trees = []*tree{base, content} // A layer of its own, because it does not change between versions.
	}

	cfg := v1.Config{
		Entrypoint: split(*entrypoint), Cmd: split(*cmd), User: *user, WorkingDir: *workdir,
		Env: append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, env...),
	}
	if *distroless {
		cfg.Env = append(cfg.Env, "SSL_CERT_FILE="+certificatesPath)
	}
	for _, l := range labels {
		k, v, ok := strings.Cut(l, "=")
		if !ok {
			return fmt.Errorf("-label %q must be key=value", l)
		}
		if cfg.Labels == nil {
			cfg.Labels = map[string]string{}
		}
		cfg.Labels[k] = v
	}
	return writeImage(*out, *tag, trees, arch, cfg, when, *gzip)
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

func buildTime(epoch string) (time.Time, error) {
	if epoch == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	s, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q must be a number of seconds", epoch)
	}
	return time.Unix(s, 0).UTC(), nil
}
