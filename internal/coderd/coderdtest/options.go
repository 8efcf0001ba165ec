package coderdtest

import (
	"time"

	"k8s.io/utils/clock"
)

// Option configures a Server.
type Option func(*Server)

// WithClock sets the clock. The default is the real time.
func WithClock(c clock.PassiveClock) Option { return func(s *Server) { s.clock = c } }

// WithManualBuilds leaves each build pending until AdvanceBuilds or FinishBuilds. By default a
// build finishes right after the response to the request that queued it.
func WithManualBuilds() Option { return func(s *Server) { s.manual = true } }

// WithMaxTokenLifetimes sets the maximum lifetime of tokens of owners and of other users. The
// defaults are Coder's: 7 days and 100 years.
func WithMaxTokenLifetimes(owner, others time.Duration) Option {
	return func(s *Server) { s.ownerTokenLifetime, s.tokenLifetime = owner, others }
}

// WithHostPrefixCookie expects the session cookie under another name, as Coder does
// since 2.31 if CODER_HOST_PREFIX_COOKIE is set.
func WithHostPrefixCookie() Option { return func(s *Server) { s.hostPrefixCookie = true } }

// WithPasswordLoginDisabled disables the login with a password for all users, as
// CODER_DISABLE_PASSWORD_AUTH does.
func WithPasswordLoginDisabled() Option { return func(s *Server) { s.noPasswords = true } }
