// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"runtime"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/csccm/csccm/installer/engine/report"
)

// maxSecret bounds what is read as one secret.
const maxSecret = 64 << 10

// ReadKeyFile reads an API key or a secret key from a file. What TrimKey removes is named in note.
func ReadKeyFile(flag, path string) (key, note string, err error) {
	raw, err := readAll(flag, path, nil)
	if err != nil {
		return "", "", err
	}
	key, note = TrimKey(fmt.Sprintf("%s: %s", flag, path), strings.TrimRight(raw, "\r\n"))
	if key, err = oneLine(flag, key); err == nil {
		err = CheckKey(flag+": the key in "+path, key)
	}
	return key, note, err
}

// CheckKey refuses a key with blanks or control characters in it: no key has any, and a paste that was broken into lines
// has. what names the key.
func CheckKey(what, key string) error {
	if !strings.ContainsFunc(key, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return nil
	}
	return report.Usage(what+" has blanks or control characters in it", "paste the key whole, and nothing else")
}

// TrimKey removes what an editor or a paste has put around a key: blanks, line breaks and byte order marks, which are
// part of no key. note says so for the operator; it is empty where nothing was removed.
func TrimKey(from, s string) (key, note string) {
	key = strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r == byteOrderMark || r == zeroWidthSpace })
	if key != s && key != "" {
		note = from + ": blanks or a byte order mark around the key were removed"
	}
	return key, note
}

const (
	byteOrderMark  = '\ufeff'
	zeroWidthSpace = '\u200b'
)

// ReadPassword reads a password from a file, or from a stream up to its end where path is "". The line break at its end is not
// part of it, nor is a byte order mark.
func ReadPassword(flag, path string, stream io.Reader) (string, error) {
	raw, err := readAll(flag, path, stream)
	if err != nil {
		return "", err
	}
	return oneLine(flag, raw)
}

func readAll(flag, path string, r io.Reader) (string, error) {
	e := &Error{What: flag + ": reading failed", Fix: "name a file, or pipe one, that holds the secret and nothing else", Code: report.ExitUsage}
	if path != "" {
		e.What = fmt.Sprintf("%s: cannot read %s", flag, path)
		f, err := os.Open(path)
		if err != nil {
			e.Err = withoutPath(err)
			return "", e
		}
		defer f.Close() //nolint:errcheck // read only
		r = f
	}
	b, err := io.ReadAll(io.LimitReader(r, maxSecret+1))
	if err != nil {
		e.Err = withoutPath(err)
		return "", e
	}
	return string(b), nil
}

// withoutPath is an error of package os for a text that names the file already.
func withoutPath(err error) error {
	if perr, ok := errors.AsType[*os.PathError](err); ok {
		return perr.Err
	}
	return err
}

func oneLine(flag, raw string) (string, error) {
	secret := strings.TrimPrefix(strings.TrimRight(raw, "\r\n"), string(byteOrderMark))
	switch {
	case len(raw) > maxSecret, !utf8.ValidString(secret), strings.ContainsAny(secret, "\r\n\x00"):
		return "", &Error{What: flag + ": that is not one line of text", Fix: "the secret must be the only content", Code: report.ExitUsage}
	case secret == "":
		return "", &Error{What: flag + ": the secret is empty", Fix: "the secret must be the only content", Code: report.ExitUsage}
	}
	return secret, nil
}

// PlainHTTP reports whether requests to an API URL go over the network without TLS: http:// to another machine.
func PlainHTTP(apiURL string) bool {
	u, err := url.Parse(apiURL)
	if err != nil || u.Scheme != "http" {
		return false
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	return host != "localhost" && (ip == nil || !ip.IsLoopback())
}

// RefusePlainLogin refuses an administrator's login over plain HTTP: the password is a parameter of the call, and the
// answer that makes the controller's keys holds the secret key. Keys alone only sign, and their secret is never sent.
func RefusePlainLogin(apiURL string, allowed bool) error {
	if allowed || !PlainHTTP(apiURL) {
		return nil
	}
	return report.Usage("an administrator's login at "+apiURL+" would send the password and the controller's new keys unencrypted; nothing was sent",
		"give the https:// URL, or add --allow-http where nobody else can read the traffic")
}

// ExposedMode returns the mode of a file with a secret that the group or all users may read, and false where nobody else
// can read it or nothing can be done about it.
func ExposedMode(path string) (fs.FileMode, bool) {
	if runtime.GOOS == "windows" || mounted(path) {
		return 0, false
	}
	if target, err := os.Readlink(path); err == nil && strings.HasPrefix(target, "..data/") {
		return 0, false // a key of a Secret or ConfigMap that Kubernetes mounts: read-only, and visible in the container alone
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	return exposed(info.Mode())
}

// mounted reports whether a path is not the operator's to protect: streams of the process, and the files that a
// container runtime mounts as secrets.
func mounted(path string) bool {
	for _, prefix := range []string{"/dev/", "/proc/", "/run/secrets/", "/var/run/secrets/"} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

// exposed decides by the mode: pipes and devices are no files at rest.
func exposed(mode fs.FileMode) (fs.FileMode, bool) {
	const others = 0o044
	return mode.Perm(), mode.IsRegular() && mode.Perm()&others != 0
}
