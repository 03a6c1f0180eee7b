// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"io/fs"
	"net"
	"net/url"
	"os"
	"runtime"
	"strings"

	"github.com/csccm/csccm/installer/engine/report"
)

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
	return &Error{
		What: "an administrator's login at " + apiURL + " would send the password and the controller's new keys unencrypted; nothing was sent",
		Fix:  "give the https:// URL, or add --allow-http where nobody else can read the traffic", Code: report.ExitUsage,
	}
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
