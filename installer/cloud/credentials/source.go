// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"runtime"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/csccm/csccm/installer/report"
)

// ReadKeyFile reads an API key or a secret key from a file.
func ReadKeyFile(flag, path string) (string, error) {
	key, err := read(flag, path, nil, TrimKey)
	if err == nil {
		err = CheckKey(flag+": the key in "+path, key)
	}
	return key, err
}

// CheckKey returns an error for a key with blanks or control characters. Valid keys have none; a key that was broken
// into lines when it was copied has. what names the key in the error.
func CheckKey(what, key string) error {
	if !strings.ContainsFunc(key, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return nil
	}
	return report.Usage("paste only the complete key", "%s has blanks or control characters in it", what)
}

// TrimKey removes what an editor or a clipboard adds around a key: blanks, line breaks and byte order marks.
func TrimKey(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) })
}

// ReadPassword reads a password from a file, or, if path is "", from a stream up to its end. A line break at the end
// and a byte order mark are not part of the password.
func ReadPassword(flag, path string, stream io.Reader) (string, error) {
	return read(flag, path, stream,
		func(s string) string { return strings.TrimPrefix(strings.TrimRight(s, "\r\n"), "\ufeff") })
}

// read reads one line of text from a file or from r. It stops after 64 KiB, so that the wrong file is not read whole.
func read(flag, path string, r io.Reader, trim func(string) string) (string, error) {
	const most = 64 << 10
	fix := "name a file, or pipe one, that holds the secret and nothing else"
	if path != "" {
		f, err := os.Open(path) // #nosec G304 -- the user names it
		if err != nil {
			return "", report.Usage(fix, "%s: %w", flag, err)
		}
		defer f.Close() //nolint:errcheck // read only
		r = f
	}

	b, err := io.ReadAll(io.LimitReader(r, most+1))
	secret := trim(string(b))
	switch {
	case err != nil:
		return "", report.Usage(fix, "%s: %w", flag, err)
	case len(b) > most, !utf8.ValidString(secret), strings.ContainsAny(secret, "\r\n\x00"):
		return "", report.Usage(fix, "%s: that is not one line of text", flag)
	case secret == "":
		return "", report.Usage(fix, "%s: the secret is empty", flag)
	}

	return secret, nil
}

// PlainHTTP reports whether requests to an API URL are sent over the network without TLS: an http:// URL of another
// machine.
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
// response that creates the controller's keys contains the secret key. With keys, requests are only signed, and the
// secret key is never sent.
func RefusePlainLogin(apiURL string, allowed bool) error {
	if allowed || !PlainHTTP(apiURL) {
		return nil
	}
	return report.Usage(
		"give the https:// URL, or add --allow-http if nobody else can read the traffic",
		"an administrator's login at %s would send the password and the controller's new keys unencrypted; "+
			"nothing was sent", apiURL,
	)
}

// ExposedMode returns the mode of a file with a secret, and reports whether the file's group or all users can read it.
// It returns false for pipes and devices, which store nothing, and for files that Kubernetes or a container runtime
// mounts, which are visible only in the container.
func ExposedMode(path string) (fs.FileMode, bool) {
	const others = 0o044
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" || !info.Mode().IsRegular() || info.Mode().Perm()&others == 0 {
		return 0, false
	}
	target, _ := os.Readlink(path)
	return info.Mode().Perm(), !strings.HasPrefix(target, "..data/") && !strings.Contains(path, "/run/secrets/")
}
