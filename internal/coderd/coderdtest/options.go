package coderdtest

import (
	"time"

	"k8s.io/utils/clock"
)

// Option changes a Server.
type Option func(*Server)

// WithClock sets the clock. Without it the server has the real time.
func WithClock(c clock.PassiveClock) Option { return func(s *Server) { s.clock = c } }

// WithManualBuilds leaves each build pending until AdvanceBuilds or
// FinishBuilds. Without it a build is done as soon as the request that queued
// it has its answer.
func WithManualBuilds() Option { return func(s *Server) { s.manual = true } }

// WithMaxTokenLifetimes sets how long a token of an owner and of anybody else
// may live. Without it these are Coder's defaults: 7 days and 100 years.
func WithMaxTokenLifetimes(owner, others time.Duration) Option {
	return func(s *Server) { s.ownerTokenLifetime, s.tokenLifetime = owner, others }
}

// WithHostPrefixCookie expects the session cookie under another name, as Coder does
// since 2.31 if CODER_HOST_PREFIX_COOKIE is set.
func WithHostPrefixCookie() Option { return func(s *Server) { s.hostPrefixCookie = true } }

// WithPasswordLoginDisabled lets nobody log in with a password, as
// CODER_DISABLE_PASSWORD_AUTH does.
func WithPasswordLoginDisabled() Option { return func(s *Server) { s.noPasswords = true } }
