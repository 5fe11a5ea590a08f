/* What every module draws with: preact, with htm in place of a compiler. */
import { h, render } from 'preact';
import htm from 'htm';

export { render };
export { useState, useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
export const html = htm.bind(h);
