package coderdtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"slices"
	"strings"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
)

// request is one request with its user.
type request struct {
	*http.Request
	w    http.ResponseWriter
	user *user
	key  *key
	// later changes the response.
	later Later
	// after is called when the response is written, and unlocked after s.mu is released.
	after    []func()
	unlocked func()
}

type handlerFunc func(r *request)

// refusal is the panic value of refuse, which serve recovers. Handlers therefore contain no error
// handling.
type refusal struct {
	status int
	body   codersdk.Response
}

func refuse(status int, message string, fields ...codersdk.ValidationError) {
	refuseDetailed(status, message, "", fields...)
}

func refuseDetailed(status int, message, detail string, fields ...codersdk.ValidationError) {
	panic(refusal{status: status, body: codersdk.Response{Message: message, Detail: detail, Validations: fields}})
}

// notFound refuses a request with Coder's error for objects that do not exist or are not visible to
// the user.
func notFound() {
	refuse(http.StatusNotFound, "Resource not found or you do not have access to this resource")
}

// routeNotFound refuses a request with Coder's error for an unknown route.
func routeNotFound() { refuse(http.StatusNotFound, "Route not found.") }

const signedOut = "You are signed out or your session has expired. Please sign in again to continue."

// endpoint counts the request, applies a matching fault, authenticates the caller and calls the
// handler.
func (s *Server) endpoint(class string, handle handlerFunc, needsUser bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(codersdk.BuildVersionHeader, string(s.release))
		w.Header().Set("Date", s.clock.Now().UTC().Format(http.TimeFormat))
		if strings.HasPrefix(class, "/") {
			s.count(r.Method + " " + class)
		} else {
			s.count(class)
		}
		w.Header().Set("X-Coder-Request-Id", s.receive(r))
		if !s.late(r) {
			giveUp()
		}
		fault := s.faultFor(r)
		if fault != nil && !s.wait(fault, r) {
			giveUp()
		}
		if fault != nil && fault.onlyDelays() {
			fault = nil
		}
		if fault != nil && fault.Hostile != "" {
			s.attack(fault, w, r)
			return
		}
		if fault != nil && !fault.Processed {
			fault.answer(w)
			return
		}
		target := w
		if fault != nil {
			target = httptest.NewRecorder() // The fault replaces the response.
		}
		handled := &request{Request: r, w: target, later: s.later}
		if s.real != nil {
			s.real.forward(target, r)
		} else {
			s.serve(handled, handle, needsUser)
		}
		if handled.unlocked != nil && fault == nil {
			handled.unlocked()
		}
		if fault != nil {
			fault.answer(w)
		}
	}
}

// giveUp aborts a request whose client is gone. If the handler returned instead, net/http would
// send an empty 200 response, which the client might receive just before its timeout.
func giveUp() { panic(http.ErrAbortHandler) }

func (s *Server) serve(r *request, handle handlerFunc, needsUser bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		switch problem := recover().(type) {
		case nil:
			for _, f := range r.after {
				f()
			}
		case refusal:
			r.write(problem.status, problem.body)
		default:
			panic(problem)
		}
	}()
	if needsUser {
		s.identify(r)
	}
	handle(r)
}

func (r *request) write(status int, body any) {
	r.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	r.w.WriteHeader(status)
	if status < http.StatusBadRequest {
		body = r.later.change(body)
	}
	_ = json.NewEncoder(r.w).Encode(body)
}

// read decodes the request body.
func read[T any](r *request) (body T) {
	r.readInto(&body)
	return body
}

// readInto decodes the request body. Fields that it omits keep their values.
func (r *request) readInto(body any) {
	if err := json.NewDecoder(r.Body).Decode(body); err != nil {
		refuseDetailed(http.StatusBadRequest, "Request body must be valid JSON.", err.Error())
	}
}

// found returns an object, or refuses the request if there is none.
func found[T any](object *T) *T {
	if object == nil {
		notFound()
	}
	return object
}

// first returns the first object that fits, or nil.
func first[T any](all []*T, fits func(*T) bool) *T {
	if i := slices.IndexFunc(all, fits); i >= 0 {
		return all[i]
	}
	return nil
}

// id returns a path parameter that must be a UUID.
func (r *request) id(name string) uuid.UUID {
	id, err := uuid.Parse(r.PathValue(name))
	if err != nil {
		refuse(http.StatusBadRequest, fmt.Sprintf("Invalid UUID %q.", r.PathValue(name)),
			codersdk.ValidationError{Field: name, Detail: "Invalid UUID"})
	}
	return id
}

// validation collects the errors in the fields of a body, with the messages of Coder's validator.
type validation []codersdk.ValidationError

func (v *validation) check(ok bool, field, tag string, value any) {
	if !ok {
		*v = append(*v, codersdk.ValidationError{
			Field:  field,
			Detail: fmt.Sprintf("Validation failed for tag %q with value: \"%v\"", tag, value),
		})
	}
}

func (v *validation) name(field, tag, value string) {
	if value == "" {
		v.check(false, field, tag, value)
		return
	}
	v.check(codersdk.NameValid(value) == nil, field, tag, value)
}

func (v *validation) email(value string) {
	v.check(value != "", "email", "required", value)
	if value != "" {
		address, err := mail.ParseAddress(value)
		_, domain, _ := strings.Cut(value, "@")
		v.check(err == nil && address.Address == value && strings.Contains(domain, "."), "email", "email", value)
	}
}

func (v validation) refuse() {
	if len(v) > 0 {
		refuse(http.StatusBadRequest, "Validation failed.", v...)
	}
}

// passwordProblem replaces Coder's entropy check.
func passwordProblem(password string) string {
	switch {
	case len(password) > 64:
		return "password must be no more than 64 characters"
	case len(password) < 8:
		return "insecure password, try including more special characters, using uppercase letters, using numbers or using a longer password"
	}
	return ""
}

func checkPassword(password string) {
	if problem := passwordProblem(password); problem != "" {
		refuse(http.StatusBadRequest, "Password is invalid", codersdk.ValidationError{Field: "password", Detail: problem})
	}
}

// postValidatePassword needs no token, as in Coder.
func postValidatePassword(r *request) {
	problem := passwordProblem(read[codersdk.ValidateUserPasswordRequest](r).Password)
	r.write(http.StatusOK, codersdk.ValidateUserPasswordResponse{Valid: problem == "", Details: problem})
}

func taken(message string) {
	refuse(http.StatusConflict, message, codersdk.ValidationError{Field: "name", Detail: "This value is already in use and should be unique."})
}
