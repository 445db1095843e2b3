# Rules for policies in C. In the Makefile of a policy:
#
#	TALON ?= path/to/talon
#	include $(TALON)/sdk/c/talon.mk
#
# Then make NAME.wasm compiles NAME.c, with manifest.json from the same folder.
# clang and wasm-ld must be there: on Debian, apt install clang lld.
#
# clang does not link: it would let a wasm-opt of the PATH change the module, which
# refuses instructions that it is not told of.

TALON_C      := $(dir $(lastword $(MAKEFILE_LIST)))
TALON_CC     ?= clang
TALON_LD     ?= wasm-ld
TALON_CFLAGS  = --target=wasm32 -std=c11 -Os -Wall -Wextra -ffreestanding -mbulk-memory -I $(TALON_C) -I .
TALON_LDFLAGS = --no-entry --stack-first --strip-all

# The object file is removed after the link.
%.wasm: %.wasm.o
	$(TALON_LD) $(TALON_LDFLAGS) -o $@ $<

%.wasm.o: %.c manifest.json $(TALON_C)talon.h
	$(TALON_CC) $(TALON_CFLAGS) $(CFLAGS) -c -o $@ $<
